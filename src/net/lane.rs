//! A lane: one bounded queue in front of at most one thread, for what may block.
//!
//! There are three: one for files, one for names, and one for work on documents that are too large
//! for the loop. A resolver that hangs must not hold a disk, nor a disk that hangs a document.
//!
//! Owns: the jobs that wait, and their order. [`Jobs`] is the end that gives them, [`Lane`] the one
//! that runs them; the relay spawns [`Lane::run`] once for each.
//!
//! Never: runs two jobs at once. `BLOCKING_MAX_THREADS` cannot be set from inside a program that
//! forbids unsafe code, and one job at a time is what keeps the pool at one thread without it.
//!
//! Invariants: a job that was taken is run, even when whoever asked has gone; when every [`Jobs`]
//! is dropped, the lane runs what is left and ends, which is how a shutdown waits for the disk.

use smol::channel::{Receiver, Sender, bounded};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

type Job = Box<dyn FnOnce() + Send>;

/// Gives jobs to the lane. Cheap to clone; stays on the thread of the loop.
#[derive(Clone)]
pub struct Jobs {
    jobs: Sender<Job>,
    /// One thread gives jobs, so that room which was seen is still there when it is used.
    one_thread: PhantomData<Rc<()>>,
}

/// Runs the jobs of all clones of one [`Jobs`].
pub struct Lane {
    jobs: Receiver<Job>,
}

/// Why a job has no result.
pub enum Refused<J> {
    /// As many jobs wait already as may. The job comes back unrun.
    Full(J),
    /// The lane was dropped with the job in it; only a process that is ending does that.
    Ended,
}

impl<J> fmt::Display for Refused<J> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Refused::Full(_) => "too many jobs wait",
            Refused::Ended => "the lane has ended",
        })
    }
}

impl<J> fmt::Debug for Refused<J> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Jobs {
    /// A lane with room for `jobs_max` waiting jobs.
    pub fn with_room(jobs_max: usize) -> (Jobs, Lane) {
        // A channel needs room for one at least.
        let (sender, receiver) = bounded(jobs_max.max(1));
        let one_thread = PhantomData;
        let jobs = Jobs {
            jobs: sender,
            one_thread,
        };
        (jobs, Lane { jobs: receiver })
    }

    /// Runs `job` on the lane's thread and waits for what it returns.
    ///
    /// The job is queued at the first poll. Dropping this future does not take it back.
    pub async fn run<T, J>(&self, job: J) -> Result<T, Refused<J>>
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.queue(job)?.recv().await.map_err(|_| Refused::Ended)
    }

    /// Queues `job` at once. Its result lies in the channel until somebody takes it; a channel that
    /// is closed without one belongs to a lane that has ended.
    pub fn queue<T, J>(&self, job: J) -> Result<Receiver<T>, Refused<J>>
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if self.jobs.is_full() {
            return Err(Refused::Full(job));
        }
        let (answer, answered) = bounded(1);
        let boxed: Job = Box::new(move || {
            // Nobody waits for the answer any more: the work is done all the same.
            let _ = answer.try_send(job());
        });
        match self.jobs.try_send(boxed) {
            Ok(()) => Ok(answered),
            Err(_) => Err(Refused::Ended),
        }
    }

    /// Jobs that wait, the running one not among them.
    pub fn waiting(&self) -> usize {
        self.jobs.len()
    }
}

impl Lane {
    /// Runs jobs on the thread of the loop, for tests that want no second one.
    #[cfg(test)]
    pub async fn run_here(self) {
        while let Ok(job) = self.jobs.recv().await {
            job();
        }
    }

    /// Runs jobs until every [`Jobs`] is gone and the queue is empty.
    pub async fn run(self) {
        while let Ok(job) = self.jobs.recv().await {
            // reason: the lane's one short-lived thread; the next job waits for this one
            smol::unblock(job).await;
        }
    }
}

impl Drop for Lane {
    /// Lets go of the jobs that wait, or whoever asked for them would wait for ever.
    fn drop(&mut self) {
        self.jobs.close();
        while self.jobs.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{poll_once, zip};
    use smol::LocalExecutor;
    use std::collections::BTreeSet;
    use std::pin::pin;
    use std::time::{Duration, Instant};

    fn thread_names() -> BTreeSet<String> {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .map(|name| name.trim().to_owned())
            .collect()
    }

    #[test]
    fn jobs_run_one_at_a_time_in_their_order() {
        let (jobs, lane) = Jobs::with_room(4);
        let (note, noted) = std::sync::mpsc::channel();
        let asked = (0..3).map(|number| {
            let (jobs, note) = (jobs.clone(), note.clone());
            async move {
                let job = move || {
                    note.send((number, "begins")).unwrap();
                    note.send((number, "ends")).unwrap();
                    std::thread::current().name().map(str::to_owned)
                };
                jobs.run(job).await.unwrap()
            }
        });
        let executor = LocalExecutor::new();
        let asked: Vec<_> = asked.map(|job| executor.spawn(job)).collect();
        drop((jobs, note));
        let results = async {
            let mut threads = Vec::new();
            for job in asked {
                threads.push(job.await);
            }
            threads
        };
        let (threads, ()) = smol::block_on(executor.run(zip(results, lane.run())));
        let order: Vec<_> = noted.iter().collect();
        let expected: Vec<_> = (0..3).flat_map(|n| [(n, "begins"), (n, "ends")]).collect();
        assert_eq!(order, expected);
        for thread in threads {
            assert!(thread.unwrap().starts_with("blocking-"));
        }
    }

    #[test]
    fn full_lane_gives_the_job_back_and_keeps_the_others() {
        let (jobs, lane) = Jobs::with_room(1);
        let mut first = pin!(jobs.run(|| 1));
        smol::block_on(async {
            assert!(poll_once(first.as_mut()).await.is_none());
            assert_eq!(jobs.waiting(), 1);
            let Err(Refused::Full(job)) = jobs.run(|| 2).await else {
                panic!("not refused");
            };
            assert_eq!(job(), 2);
            let mut lane = pin!(lane.run());
            let answer = futures_lite::future::or(first, async {
                lane.as_mut().await;
                Err(Refused::Ended)
            });
            assert_eq!(answer.await.ok(), Some(1));
        });
    }

    #[test]
    fn job_whose_asker_has_gone_is_run_before_the_lane_ends() {
        let (jobs, lane) = Jobs::with_room(2);
        let (note, noted) = std::sync::mpsc::channel();
        smol::block_on(async {
            let asked = jobs.run(move || note.send("ran"));
            assert!(poll_once(pin!(asked)).await.is_none());
            drop(jobs);
            lane.run().await;
        });
        assert_eq!(noted.recv(), Ok("ran"));
    }

    #[test]
    fn dropped_lane_ends_its_askers() {
        let (jobs, lane) = Jobs::with_room(2);
        smol::block_on(async {
            let mut asked = pin!(jobs.run(|| 1));
            assert!(poll_once(asked.as_mut()).await.is_none());
            drop(lane);
            assert!(matches!(asked.await, Err(Refused::Ended)));
            assert!(matches!(jobs.run(|| 1).await, Err(Refused::Ended)));
        });
    }

    #[test]
    fn lane_thread_ends_when_it_is_idle() {
        let (jobs, lane) = Jobs::with_room(2);
        let name = smol::block_on(async {
            let asked = async move {
                let job = || std::thread::current().name().map(str::to_owned);
                jobs.run(job).await.unwrap()
            };
            let (name, ()) = zip(asked, lane.run()).await;
            name.unwrap()
        });
        // Tests beside this one may use the pool too, so their threads have ten seconds to go.
        let patience = Instant::now() + Duration::from_secs(10);
        while thread_names().contains(&name) {
            assert!(Instant::now() < patience, "{name} is still there");
            std::thread::yield_now();
        }
    }
}

//! The files of the spool: lines that are only ever appended, in files that are only ever removed
//! whole, and one small file that says how far they were delivered.
//!
//! A file is named by the number of its first entry, so that how much waits is known without
//! reading, and what was lost as well. Lines are synced before they count. What a power cut left
//! behind the last whole line is cut off at the next start. A line that cannot be read makes the
//! rest of its file unreadable, and nothing else.
//!
//! Everything here blocks: it belongs in a job of the disk lane, or before the loop turns.
//!
//! Invariants: entries that were appended are on the disk until they are marked, or counted as
//! lost; the files together take `bytes_max` at most, and the newest is never given up for that.

mod mend;

use crate::limits::Limits;
use crate::model::report::ReportKind;
use crate::net::disk::{Access, DiskError, Step, atomic_write, make_folder, remove_leftovers};
use crate::state::spool::Stored;
use crate::wire::journal::{self, Mark, OVERHEAD_BYTES, Place};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What ends the name of a file of lines.
const ENDING: &str = ".events";

/// The file that says what was delivered. Its text takes 200 bytes.
const MARK: &str = "delivered";
const MARK_BYTES_MAX: usize = 1024;

/// A line, and how many entries are in it.
pub type Record = (String, usize);

/// What was read.
#[derive(Debug, Default)]
pub struct Window {
    /// Bodies, as `wire::usage` reads them.
    pub bodies: Vec<(ReportKind, String)>,
    /// How many of the batches that they make were delivered before a restart.
    pub done: u32,
}

/// What was found wrong when the files were opened, one line for the log each.
pub type Repairs = Vec<String>;

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Number of its first entry.
    first: u64,
    /// Of whole and synced lines.
    bytes: u64,
}

/// The files, in one folder that nobody else writes to.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    bytes_max: u64,
    segment_bytes: u64,
    /// What a file may have grown to under any configuration.
    file_bytes_max: usize,
    line_bytes_max: usize,
    window_bytes: usize,
    /// Oldest first.
    segments: VecDeque<Segment>,
    /// The newest, where lines can be appended to it.
    file: Option<File>,
    /// Number of the next entry.
    next: u64,
    /// What is on the disk as delivered, or will be with the next mark.
    mark: Mark,
    /// Where the next window begins.
    cursor: Place,
    /// Batches that were done of the window before a restart; until it is read again.
    resumes: Option<u32>,
    lost: u64,
}

impl Journal {
    /// Opens `folder`, and makes it where there is none; mends what a power cut left.
    ///
    /// `bytes_max` is at least 64 KiB. Bounded by the number of files, one of which is read.
    pub fn open(
        folder: &Path,
        bytes_max: u64,
        limits: &Limits,
    ) -> Result<(Journal, Repairs), DiskError> {
        make_folder(folder)?;
        remove_leftovers(folder)?;
        let most = u64::try_from(limits.spool_segment_bytes).unwrap_or(u64::MAX);
        let mut journal = Journal {
            folder: folder.to_path_buf(),
            bytes_max,
            segment_bytes: most.min(bytes_max / 4),
            file_bytes_max: limits.spool_segment_bytes + line_bytes_max(limits),
            line_bytes_max: line_bytes_max(limits),
            window_bytes: limits.spool_window_bytes,
            segments: VecDeque::new(),
            file: None,
            next: 0,
            mark: Mark::default(),
            cursor: Place::default(),
            resumes: None,
            lost: 0,
        };
        let mut repairs = Repairs::new();
        journal.list()?;
        journal.mend_newest(&mut repairs)?;
        journal.find_mark(&mut repairs)?;
        Ok((journal, repairs))
    }

    /// What there is now; what was lost is said once.
    pub fn stored(&mut self) -> Stored {
        let from = self.mark.start;
        let left = |segment: &Segment| match segment.first.cmp(&from.segment) {
            Ordering::Less => 0,
            Ordering::Equal => segment.bytes.saturating_sub(from.offset),
            Ordering::Greater => segment.bytes,
        };
        Stored {
            entries: self.next.saturating_sub(self.cursor.entry),
            bytes: self.segments.iter().map(left).sum(),
            lost: std::mem::take(&mut self.lost),
        }
    }

    /// Writes `records` down and syncs them. All of them are there afterwards, or, with an error,
    /// none. Bounded by their bytes, and by the files that make room for them.
    pub fn append(&mut self, records: &[Record]) -> Result<(), DiskError> {
        let (newest, next) = (self.segments.back().copied(), self.next);
        let outcome = self.append_all(records).and_then(|()| self.sync());
        if outcome.is_err() {
            self.take_back(newest, next);
        }
        outcome
    }

    /// Reads on from the end of the last window, about `spool_window_bytes`.
    ///
    /// Bounded by that and one line, and by the files that turn out to be unreadable.
    pub fn read(&mut self) -> Result<Window, DiskError> {
        let (start, lost) = (self.cursor, self.lost);
        let resumed = self.resumes.take();
        let end = match resumed {
            Some(_) => self.mark.end.entry,
            None => self.next,
        };
        let mut window = Window::default();
        let mut room = self.window_bytes;
        while room > 0 && self.cursor.entry < end {
            let Some(segment) = self.segment_at_cursor() else {
                break;
            };
            let bytes = self.read_chunk(segment, room)?;
            let mut at = 0;
            while room > 0
                && self.cursor.entry < end
                && let Some(line) = bytes.get(at..).and_then(journal::decode)
            {
                window.bodies.push((line.kind, line.body.to_owned()));
                room = room.saturating_sub(line.bytes);
                at += line.bytes;
                self.cursor.offset += line.bytes as u64;
                self.cursor.entry += u64::from(line.entries);
            }
            // There is room for a whole line in what was read, so one stood there that is none.
            if at == 0 {
                self.skip(segment);
            }
        }
        // Batches are counted from the same beginning to the same end, or not at all.
        let is_same = end == self.cursor.entry && start == self.mark.start && lost == self.lost;
        window.done = resumed.filter(|_| is_same).unwrap_or(0);
        self.mark = Mark {
            start,
            end: self.cursor,
            done: window.done,
        };
        Ok(window)
    }

    /// Notes on the disk that so many batches of the last window are done.
    pub fn mark(&mut self, done: u32) -> Result<(), DiskError> {
        self.mark.done = done;
        self.write_mark()
    }

    /// Notes on the disk that the last window is done, and removes the files before it.
    ///
    /// Bounded by their number.
    pub fn finish(&mut self) -> Result<(), DiskError> {
        self.mark = Mark {
            start: self.cursor,
            end: self.cursor,
            done: 0,
        };
        self.write_mark()?;
        let start = self.mark.start;
        while self.segments.len() > 1
            && let Some(oldest) = self.segments.front()
            && oldest.first < start.segment
        {
            self.remove(oldest.first)?;
            self.segments.pop_front();
        }
        Ok(())
    }

    fn append_all(&mut self, records: &[Record]) -> Result<(), DiskError> {
        for (line, entries) in records {
            let length = line.len() as u64;
            let newest = self.segments.back();
            let fits =
                |newest: &Segment| newest.bytes == 0 || newest.bytes + length <= self.segment_bytes;
            if self.file.is_none() || !newest.is_some_and(fits) {
                self.sync()?;
                self.begin_segment()?;
            }
            self.make_room(length)?;
            if let (Some(newest), Some(file)) = (self.segments.back_mut(), &mut self.file) {
                let path = path(&self.folder, newest.first);
                file.write_all(line.as_bytes())
                    .map_err(|error| DiskError::new(Step::Write, &path, &error))?;
                newest.bytes += length;
            }
            self.next += *entries as u64;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        let (Some(newest), Some(file)) = (self.segments.back(), &self.file) else {
            return Ok(());
        };
        let path = path(&self.folder, newest.first);
        file.sync_data()
            .map_err(|error| DiskError::new(Step::Sync, &path, &error))
    }

    fn begin_segment(&mut self) -> Result<(), DiskError> {
        let first = self.next;
        let path = path(&self.folder, first);
        // Of the same name can only be one in which nothing counts.
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        let opened = options.open(&path).and_then(|file| {
            file.set_len(0)?;
            Ok(file)
        });
        let file = opened.map_err(|error| DiskError::new(Step::Create, &path, &error))?;
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(|error| DiskError::new(Step::SyncDirectory, &path, &error))?;
        self.file = Some(file);
        if self
            .segments
            .back()
            .is_some_and(|newest| newest.first == first)
        {
            self.segments.pop_back();
        }
        self.segments.push_back(Segment { first, bytes: 0 });
        if self.cursor.entry == first {
            self.cursor = place_of(first);
        }
        Ok(())
    }

    /// Gives the oldest files up until `length` more bytes fit.
    fn make_room(&mut self, length: u64) -> Result<(), DiskError> {
        while self.segments.len() > 1
            && self.bytes() + length > self.bytes_max
            && let Some(oldest) = self.segments.front().copied()
        {
            self.remove(oldest.first)?;
            self.segments.pop_front();
            let first = self
                .segments
                .front()
                .map_or(self.next, |segment| segment.first);
            if self.cursor.entry < first {
                self.lost += first - self.cursor.entry.max(oldest.first);
                self.cursor = place_of(first);
            } else if self.cursor.segment == oldest.first {
                self.cursor = place_of(first);
            }
        }
        Ok(())
    }

    /// Undoes an append that failed: `newest` was the newest file, and `next` the next entry. Best
    /// effort where the disk does not even cut: what is left is not read, unless after a restart.
    fn take_back(&mut self, newest: Option<Segment>, next: u64) {
        // Whatever a failed sync leaves behind, nothing more is written into that file.
        self.file = None;
        self.next = next;
        let first = newest.map(|newest| newest.first);
        while let Some(last) = self.segments.back_mut() {
            if Some(last.first) == first {
                last.bytes = newest.map_or(0, |newest| newest.bytes);
                let file = OpenOptions::new()
                    .write(true)
                    .open(path(&self.folder, last.first));
                let _ = file.and_then(|file| file.set_len(last.bytes));
                break;
            }
            if last.first < next {
                break;
            }
            let _ = fs::remove_file(path(&self.folder, last.first));
            self.segments.pop_back();
        }
    }

    /// The file at the cursor, which is moved on where one has ended or is gone.
    fn segment_at_cursor(&mut self) -> Option<Segment> {
        let place = self.cursor;
        let holds = |segment: &&Segment| match segment.first.cmp(&place.segment) {
            Ordering::Less => false,
            Ordering::Equal => place.offset < segment.bytes,
            Ordering::Greater => segment.bytes > 0,
        };
        let found = self.segments.iter().find(holds).copied();
        let first = found.map_or(self.next, |segment| segment.first);
        if first != place.segment {
            self.lost += first.saturating_sub(place.entry);
            self.cursor = place_of(first);
        }
        found
    }

    /// The lines at the cursor; the last may be cut.
    fn read_chunk(&self, segment: Segment, room: usize) -> Result<Vec<u8>, DiskError> {
        let path = path(&self.folder, segment.first);
        let left = segment.bytes.saturating_sub(self.cursor.offset);
        let most = left.min((room + self.line_bytes_max) as u64);
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(self.cursor.offset))?;
            file.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error| DiskError::new(Step::Read, &path, &error))
    }

    /// Gives up what is left of a file. Lines are not appended behind what cannot be read.
    fn skip(&mut self, segment: Segment) {
        let later = self
            .segments
            .iter()
            .find(|later| later.first > segment.first);
        let next = later.map_or(self.next, |later| later.first);
        if later.is_none() {
            self.file = None;
        }
        self.lost += next.saturating_sub(self.cursor.entry);
        self.cursor = match later {
            Some(later) => place_of(later.first),
            None => Place {
                entry: next,
                segment: segment.first,
                offset: segment.bytes,
            },
        };
    }

    fn write_mark(&mut self) -> Result<(), DiskError> {
        let text = journal::encode_mark(&self.mark);
        atomic_write(&self.folder.join(MARK), text.as_bytes(), Access::Private)
    }

    fn remove(&self, first: u64) -> Result<(), DiskError> {
        let path = path(&self.folder, first);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(DiskError::new(Step::Remove, &path, &error))
            }
            _ => Ok(()),
        }
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    fn beginning(&self) -> Place {
        place_of(
            self.segments
                .front()
                .map_or(self.next, |segment| segment.first),
        )
    }
}

/// The beginning of the file whose first entry is `first`.
fn place_of(first: u64) -> Place {
    Place {
        entry: first,
        segment: first,
        offset: 0,
    }
}

/// The longest line: a batch at its bounds, of which the last entry may be one that is too large
/// for any other.
fn line_bytes_max(limits: &Limits) -> usize {
    let body = limits.report_bytes_max + limits.report_entry_bytes_max;
    // Escapes may make a name in the envelope six times as long.
    body + 6 * limits.report_envelope_bytes_max + OVERHEAD_BYTES + 256
}

fn path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}{ENDING}"))
}

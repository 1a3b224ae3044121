//! The files as a crash left them: which there are, what of them is whole, how far they were
//! delivered.
//!
//! Never gives up more than has to be: what cannot be read is cut off behind the last whole line,
//! and a mark that cannot be read costs repetition, not entries.

use super::{ENDING, Journal, MARK, MARK_BYTES_MAX, Repairs, Segment, path};
use crate::net::disk::{DiskError, Problem, Step, read_bounded};
use crate::wire::journal::{self, Mark, Place};
use std::fs::{self, File, OpenOptions};
use std::io;

impl Journal {
    pub(super) fn list(&mut self) -> Result<(), DiskError> {
        let failed = |error: io::Error| DiskError::new(Step::List, &self.folder, &error);
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let first = name.to_str().and_then(|name| name.strip_suffix(ENDING));
            let Some(first) = first.and_then(|first| first.parse().ok()) else {
                continue;
            };
            let bytes = entry.metadata().map_err(failed)?.len();
            segments.push(Segment { first, bytes });
        }
        segments.sort_by_key(|segment| segment.first);
        self.segments = segments.into();
        Ok(())
    }

    /// Cuts off what is no whole line at the end of the newest file.
    pub(super) fn mend_newest(&mut self, repairs: &mut Repairs) -> Result<(), DiskError> {
        let Some(newest) = self.segments.back_mut() else {
            return Ok(());
        };
        let path = path(&self.folder, newest.first);
        let bytes = match read_bounded(&path, self.file_bytes_max) {
            Ok(bytes) => bytes.unwrap_or_default(),
            // One that grew past its bound is not ours: nothing of it counts, and it is cut to
            // nothing.
            Err(error) if matches!(error.problem, Problem::TooLarge { .. }) => Vec::new(),
            // It may be read another time, and is left as it is until then.
            Err(error) => return Err(error),
        };
        let (mut whole, mut entries) = (0, 0);
        while let Some(line) = bytes.get(whole..).and_then(journal::decode) {
            whole += line.bytes;
            entries += u64::from(line.entries);
        }
        let (found, whole) = (newest.bytes, whole as u64);
        newest.bytes = whole;
        self.next = newest.first.saturating_add(entries);
        let cut = || -> io::Result<File> {
            let file = OpenOptions::new().append(true).open(&path)?;
            if found > whole {
                file.set_len(whole)?;
                file.sync_data()?;
            }
            Ok(file)
        };
        self.file = Some(cut().map_err(|error| DiskError::new(Step::Open, &path, &error))?);
        if found > whole {
            repairs.push(format!(
                "{}: ended in {} bytes of a torn line, which were cut off",
                path.display(),
                found - whole
            ));
        }
        Ok(())
    }

    pub(super) fn find_mark(&mut self, repairs: &mut Repairs) -> Result<(), DiskError> {
        let path = self.folder.join(MARK);
        let text = read_bounded(&path, MARK_BYTES_MAX).unwrap_or(Some(Vec::new()));
        let mark = text.as_deref().map(journal::decode_mark);
        if mark == Some(None) {
            repairs.push(format!(
                "{}: cannot be read: what the spool holds is delivered again",
                path.display()
            ));
        }
        let mark = mark.flatten().unwrap_or_default();
        // Numbers go on where they were, even when all files are gone.
        self.next = match self.segments.is_empty() {
            true => mark.start.entry.max(mark.end.entry),
            false => self.next,
        };
        let is_there = |place: Place| {
            let segment = self
                .segments
                .iter()
                .find(|segment| segment.first == place.segment);
            segment.is_some_and(|segment| place.offset <= segment.bytes) && place.entry <= self.next
        };
        if !is_there(mark.start) {
            self.cursor = self.beginning();
        } else {
            self.cursor = mark.start;
            let is_within = mark.done > 0 && mark.end > mark.start && is_there(mark.end);
            self.resumes = is_within.then_some(mark.done);
        }
        self.mark = Mark {
            start: self.cursor,
            ..mark
        };
        // Files that were delivered, and that a crash kept from being removed.
        while let Some(oldest) = self.segments.front()
            && oldest.first < self.cursor.segment
        {
            self.remove(oldest.first)?;
            self.segments.pop_front();
        }
        Ok(())
    }
}

//! From a survey to the steps that make the store sound.

use std::path::Path;

use store_core::{LogOffset, SegmentName};

use super::fill::MIN_FILLER;
use super::{Fill, FillWith, LostRange, RepairPlan, RepairStep};
use crate::survey::{Bridge, Examined, Listed, SegmentFile, SurveyError, SurveyOptions, examine};
use crate::walk::{Found, Walker, behind};

pub(super) fn plan(root: &Path, options: &SurveyOptions<'_>) -> Result<RepairPlan, SurveyError> {
    let examined = examine(root, options)?;
    let mut planner = Planner {
        examined: &examined,
        options,
        steps: Vec::new(),
        lost: Vec::new(),
        records_overwritten: 0,
    };
    let mut aside = Vec::new();
    for index in 0..examined.listing.segments.len() {
        // One that went leaves a gap before those behind it, be they empty.
        if planner.goes_aside(index) || !aside.is_empty() {
            aside.push(index);
        } else {
            planner.segment(index)?;
        }
    }
    planner.missing();
    // From the last on, so that whoever is interrupted leaves no gap.
    let empty = examined.listing.empty.iter();
    let aside = aside.into_iter().map(|index| &examined.listing.segments[index]).chain(empty);
    let aside: Vec<_> = aside.map(|file| file.path.clone()).collect();
    for path in aside.into_iter().rev().chain(examined.listing.foreign.iter().cloned()) {
        // What stands where a segment is to be made goes first.
        let makes = |step: &RepairStep| match step {
            RepairStep::Insert { path: made, .. } => *made == path,
            _ => false,
        };
        let place = planner.steps.iter().position(makes).unwrap_or(planner.steps.len());
        planner.steps.insert(place, RepairStep::SetAside { path });
    }
    let records_overwritten = planner.records_overwritten;
    let (steps, mut lost) = (planner.steps, planner.lost);
    lost.sort_by_key(|lost| lost.from);
    let Examined { survey, listing, gaps, .. } = examined;
    let protection = options.protection;
    Ok(RepairPlan { survey, steps, lost, records_overwritten, listing, protection, gaps })
}

struct Planner<'a> {
    examined: &'a Examined,
    options: &'a SurveyOptions<'a>,
    steps: Vec<RepairStep>,
    lost: Vec<LostRange>,
    records_overwritten: u64,
}

impl Planner<'_> {
    fn listed(&self, index: usize) -> &Listed {
        &self.examined.listing.segments[index]
    }

    fn lose(&mut self, index: usize, from: LogOffset, to: LogOffset, found: &str) {
        let path = self.listed(index).path.clone();
        self.lost.push(LostRange { path, from, to, found: found.to_owned() });
    }

    /// Whether a segment holds nothing of the log and stands behind its end; the first one stays,
    /// because it says where the log begins.
    fn goes_aside(&mut self, index: usize) -> bool {
        let start = self.listed(index).start;
        let part = self.examined.tail.iter().find(|part| part.segment == index);
        let part = part.filter(|part| part.from == start).cloned();
        let cut_off = self.examined.gaps.iter().any(|gap| {
            !gap.has_records_behind && gap.to <= start && self.examined.survey.end <= start
        });
        if index == 0 || (part.is_none() && !cut_off) {
            return false;
        }
        if let Some(part) = part {
            self.lose(index, part.from, part.to, &part.found);
        }
        true
    }

    fn segment(&mut self, index: usize) -> Result<(), SurveyError> {
        let size = self.examined.listing.size;
        let listed = self.listed(index).clone();
        let end = behind(listed.start, size.bytes());
        let bridges: Vec<&Bridge> =
            self.examined.bridges.iter().filter(|bridge| bridge.segment == index).collect();
        let mut fills = Vec::new();
        if !bridges.is_empty() {
            let file = SegmentFile::open(&listed.path, listed.start, size)?;
            fills = self.bridge(index, &file, &bridges)?;
        }
        if let Some(part) = self.examined.tail.iter().find(|part| part.segment == index) {
            fills.push(Fill { from: part.from, to: end, with: FillWith::Zeroes });
            self.lose(index, part.from, part.to, &part.found);
        }
        if size.bytes() < listed.len {
            let file = SegmentFile::open(&listed.path, listed.start, size)?;
            let mut walker = Walker::new(self.options.protection);
            if let Some(to) = walker.last_data(&file, end, behind(listed.start, listed.len))? {
                self.lose(index, end, to, "bytes behind the segment's end");
            }
        }
        if !fills.is_empty() || listed.len != size.bytes() {
            self.steps.push(RepairStep::Replace { path: listed.path, start: listed.start, fills });
        }
        Ok(())
    }

    /// Fills for the bad places of one segment. A place too short for a filler takes what follows
    /// it as well.
    fn bridge(
        &mut self,
        index: usize,
        file: &SegmentFile,
        bridges: &[&Bridge],
    ) -> Result<Vec<Fill>, SurveyError> {
        let mut walker = Walker::new(self.options.protection);
        let mut fills = Vec::new();
        let mut rest = bridges.iter().peekable();
        while let Some(bridge) = rest.next() {
            let (from, mut to, mut has_next) = (bridge.from, bridge.to, bridge.has_next);
            let mut images = 0;
            while let Some(next) = rest.next_if(|next| next.to.since(next.from) < IMAGE_AT) {
                images += count(file, &mut walker, to, next.from)?;
                (to, has_next) = (next.to, next.has_next);
            }
            self.lose(index, from, to, &with_images(&bridge.found, images));
            let mut swallowed = 0;
            let lost_to = to;
            while has_next && to.since(from) < MIN_FILLER {
                match walker.step(file, to, file.end())? {
                    Found::Record(view) => {
                        to = behind(to, u64::from(view.total_size()));
                        swallowed += 1;
                    }
                    Found::Blank => has_next = false,
                    Found::Invalid(_) | Found::Unreadable => match rest.next() {
                        Some(next) => (to, has_next) = (next.to, next.has_next),
                        None => has_next = false,
                    },
                }
            }
            if lost_to < to {
                let found = format!(
                    "the place before it is too short to be filled, so it goes too; valid records \
                     in it: {swallowed}"
                );
                self.lose(index, lost_to, to, &found);
            }
            self.records_overwritten += images + swallowed;
            if has_next {
                let with = FillWith::Fillers { store_timestamp: bridge.store };
                fills.push(Fill { from, to, with });
            } else {
                fills.push(Fill { from, to: file.end(), with: FillWith::Blank });
                break;
            }
        }
        Ok(fills)
    }

    /// Segments that are missing before records of the log.
    fn missing(&mut self) {
        let size = self.examined.listing.size.bytes();
        for gap in self.examined.gaps.iter().filter(|gap| gap.has_records_behind) {
            let directory = &self.examined.listing.directory;
            let path = directory.join(SegmentName::new(gap.from).as_str());
            let found = "missing".to_owned();
            self.lost.push(LostRange { path, from: gap.from, to: gap.to, found });
            // A wider gap is refused when the plan is applied.
            let count = (gap.to.since(gap.from) / size).min(WIDEST_GAP);
            for number in 0..count {
                let start = behind(gap.from, number * size);
                let path = directory.join(SegmentName::new(start).as_str());
                self.steps.push(RepairStep::Insert { path, start });
            }
        }
    }
}

/// Valid records from one place to another.
fn count(
    file: &SegmentFile,
    walker: &mut Walker,
    from: LogOffset,
    to: LogOffset,
) -> Result<u64, SurveyError> {
    let mut records = 0;
    let mut at = from;
    while at < to
        && let Found::Record(view) = walker.step(file, at, file.end())?
    {
        at = behind(at, u64::from(view.total_size()));
        records += 1;
    }
    Ok(records)
}

fn with_images(found: &str, images: u64) -> String {
    match images {
        0 => found.to_owned(),
        _ => format!("{found}; records that its bodies hold images of: {images}"),
    }
}

/// Where in a record the image of another one can begin at the earliest, in bytes: its length is
/// then the record's own body length, and the rest is body.
///
/// Records that follow on a bad place were found by search. A bad place behind them that is shorter
/// than this is no record, and none begins there of which the next one found could be an image. So
/// those before it are images, of records in the body of a bad one.
const IMAGE_AT: u64 = 84;

/// How many segments may be missing in one place.
pub(super) const WIDEST_GAP: u64 = 1024;

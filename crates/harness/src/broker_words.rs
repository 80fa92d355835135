//! A strategy in a broker's words: the lines of `broker.conf` that make `RocketMQ` do the same.
//!
//! The other way round from [`BrokerConf`](crate::profile::BrokerConf), which reads what this
//! writes. What `RocketMQ` has no key for is said in comment lines.

use std::time::Duration;

use crate::format;
use crate::profile::{Io, Prealloc, Settings, Sysctls};
use crate::results::Manifest;
use crate::sysctl::Status;

/// The settings as a broker names them, ready to be pasted into its `broker.conf`, of segments with
/// so many bytes; no line is wider than 80 columns.
pub fn broker_conf(settings: &Settings, segment_bytes: u64) -> String {
    let mut words = Words::default();
    match *settings {
        Settings::CommitRealtime {
            commit,
            commit_least_pages,
            commit_thorough,
            interval,
            least_pages,
            thorough,
            staging_bytes,
            ..
        } => {
            words.kind("ASYNC_FLUSH", true, segment_bytes);
            words.flush(interval, least_pages, thorough);
            words.ms("commitIntervalCommitLog", commit);
            words.key("commitCommitLogLeastPages", &commit_least_pages);
            words.ms("commitCommitLogThoroughInterval", commit_thorough);
            words.pool(staging_bytes, segment_bytes);
        }
        Settings::FlushRealtime { interval, least_pages, thorough, timed, .. } => {
            words.kind("ASYNC_FLUSH", false, segment_bytes);
            words.flush(interval, least_pages, thorough);
            words.key("flushCommitLogTimed", &timed);
            if !timed {
                words.key("wakeFlushWhenPutMessage", &true);
            }
        }
        Settings::GroupCommit { timeout, gather, lead, .. } => {
            words.kind("SYNC_FLUSH", false, segment_bytes);
            words.ms("syncFlushTimeout", timeout);
            if gather > Duration::ZERO {
                let gather = gather.as_micros();
                words.comment(&format!("A flush waits {gather} us for others to join:"));
                words.comment("a broker waits for nobody, and has no key for it.");
            }
            if lead {
                words.comment("A producer that waits alone runs its flush itself:");
                words.comment("a broker leaves it to a thread, and has no key for it.");
            }
        }
        Settings::None { .. } => words.comment("Nothing is ever flushed: a broker always does."),
    }
    words.files(settings);
    words.lines
}

/// Under which kernel settings of this name something was measured on a disk, as comment lines for
/// a broker's file: the settings are its machine's, and no key of a broker sets them.
pub fn measured_under(manifest: &Manifest, sysctl: &str, disk: &str) -> String {
    let mut words = Words::default();
    let name = format::clipped(sysctl, 40);
    // A disk with limits of its own has an entry of its own.
    let own = format!("{sysctl} on {disk}");
    let found = |name: &str| manifest.sysctls.iter().find(|of| of.name == name);
    match found(&own).or_else(|| found(sysctl)).map(|of| &of.applied) {
        Some(applied) if applied.status == Status::NotApplied => {
            words.comment(&format!("Measured where the kernel settings {name} were not applied."));
        }
        Some(applied) => {
            words.comment(&format!("Measured under the kernel settings {name}:"));
            for value in &applied.values {
                let key = format::clipped(&value.key, 40);
                words.comment(&format!("  {key}={}", value.found.unwrap_or(value.asked)));
            }
        }
        None if sysctl == Sysctls::AS_FOUND => {
            words.comment("Measured under the kernel settings that were found (env.json).");
        }
        None => words.comment(&format!("Measured under the kernel settings {name}.")),
    }
    words.lines
}

/// The lines so far.
#[derive(Debug, Default)]
struct Words {
    lines: String,
}

impl Words {
    fn key(&mut self, key: &str, value: &impl ToString) {
        let value = value.to_string();
        self.lines.extend([key, "=", &value, "\n"]);
    }

    fn ms(&mut self, key: &str, time: Duration) {
        self.key(key, &time.as_millis());
    }

    fn comment(&mut self, words: &str) {
        self.lines.extend(["# ", words, "\n"]);
    }

    fn kind(&mut self, flush: &str, has_pool: bool, segment_bytes: u64) {
        self.key("flushDiskType", &flush);
        self.key("transientStorePoolEnable", &has_pool);
        self.key("mappedFileSizeCommitLog", &segment_bytes);
    }

    fn flush(&mut self, interval: Duration, least_pages: u64, thorough: Duration) {
        self.ms("flushIntervalCommitLog", interval);
        self.key("flushCommitLogLeastPages", &least_pages);
        self.ms("flushCommitLogThoroughInterval", thorough);
    }

    /// As many buffers, each of a segment, as hold what is staged.
    fn pool(&mut self, staging_bytes: u64, segment_bytes: u64) {
        let segment = segment_bytes.max(1);
        let buffers = staging_bytes.div_ceil(segment).clamp(1, MOST_BUFFERS);
        self.key("transientStorePoolSize", &buffers);
        if buffers.saturating_mul(segment) != staging_bytes {
            self.comment(&format!("{staging_bytes} bytes are staged at most:"));
            self.comment("a broker's buffers have the size of a segment each.");
        }
    }

    /// How bytes reach the file and its space, as far as a broker lets one choose.
    fn files(&mut self, settings: &Settings) {
        let (io, prealloc) = match *settings {
            Settings::CommitRealtime { io, prealloc, .. }
            | Settings::FlushRealtime { io, prealloc, .. }
            | Settings::GroupCommit { io, prealloc, .. } => (io, prealloc),
            Settings::None { .. } => return,
        };
        let is_staged = matches!(settings, Settings::CommitRealtime { .. });
        match io {
            Io::Direct => {
                self.comment("Writes past the page cache (O_DIRECT): a broker has no key.");
            }
            // A pool writes to the file in any case, and excludes the key.
            Io::Positioned if !is_staged => self.key("writeWithoutMmap", &true),
            Io::Mapped | Io::Positioned => {}
        }
        match prealloc {
            Prealloc::Fallocate => {
                self.comment("A segment's space is reserved (fallocate): a broker has no key.");
            }
            Prealloc::None => {}
            Prealloc::Zero => self.key("warmMapedFileEnable", &true),
        }
    }
}

/// Buffers of a pool.
const MOST_BUFFERS: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{BrokerConf, Level, Sweep};
    use crate::results::AppliedSysctls;
    use crate::results_fixture::manifest;
    use crate::sysctl::{Applied, Found};

    const SEGMENT: u64 = 256 << 20;

    fn staged(staging_bytes: u64, io: Io) -> Settings {
        Settings::CommitRealtime {
            commit: Duration::from_millis(150),
            commit_least_pages: 3,
            commit_thorough: Duration::from_millis(250),
            interval: Duration::from_millis(400),
            least_pages: 5,
            thorough: Duration::from_secs(9),
            staging_bytes,
            io,
            prealloc: Prealloc::Fallocate,
        }
    }

    fn timed(timed: bool, io: Io, prealloc: Prealloc) -> Settings {
        let (interval, thorough) = (Duration::from_millis(35), Duration::from_secs(7));
        Settings::FlushRealtime { interval, least_pages: 6, thorough, timed, io, prealloc }
    }

    fn sync(gather: Duration, lead: bool, io: Io) -> Settings {
        let (timeout, prealloc) = (Duration::from_secs(4), Prealloc::Fallocate);
        Settings::GroupCommit { timeout, gather, siblings: 5, lead, io, prealloc }
    }

    /// What is read of the lines written.
    #[track_caller]
    fn read_back(settings: &Settings) -> (Settings, String) {
        let text = broker_conf(settings, SEGMENT);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let read = BrokerConf::parse("broker.conf", &text).unwrap();
        // Every key counts, and as it is written; only a pool that is none may be said to differ.
        assert!(read.notes.iter().all(|note| note.level == Level::Note), "{:?}", read.notes);
        assert_eq!(read.notes.len(), 0, "{:?}\n{text}", read.notes);
        assert_eq!(read.segment_bytes, SEGMENT);
        (read.strategy.settings, text)
    }

    #[test]
    fn what_a_broker_has_keys_for_reads_back_the_same() {
        for settings in [
            staged(SEGMENT, Io::Positioned),
            staged(3 * SEGMENT, Io::Positioned),
            timed(true, Io::Mapped, Prealloc::Fallocate),
            timed(false, Io::Mapped, Prealloc::Fallocate),
            timed(true, Io::Positioned, Prealloc::Zero),
            sync(Duration::ZERO, false, Io::Mapped),
            sync(Duration::ZERO, false, Io::Positioned),
        ] {
            assert_eq!(read_back(&settings).0, settings);
        }
    }

    #[test]
    fn what_it_has_no_key_for_is_a_comment() {
        let (read, text) = read_back(&sync(Duration::from_micros(200), true, Io::Direct));
        assert_eq!(read, sync(Duration::ZERO, false, Io::Mapped));
        let without: String = broker_conf(&read, SEGMENT);
        let comments = |text: &str| text.lines().filter(|line| line.starts_with("# ")).count();
        // The wait and the leader take two lines each.
        assert_eq!(comments(&text), comments(&without) + 5, "{text}");
        assert!(text.contains("waits 200 us for others"), "{text}");
        let (read, text) = read_back(&staged(SEGMENT + 1, Io::Direct));
        assert_eq!(read, staged(2 * SEGMENT, Io::Positioned));
        assert!(text.contains("268435457 bytes are staged at most"), "{text}");
        assert!(text.contains("transientStorePoolSize=2\n"), "{text}");
        let never = broker_conf(&Settings::None { io: Io::Mapped }, SEGMENT);
        assert_eq!(never, "# Nothing is ever flushed: a broker always does.\n");
    }

    #[test]
    fn the_kernel_settings_are_named_with_their_values() {
        let value = |key: &str, asked, found| Found { key: key.to_owned(), asked, found };
        let applied = Applied {
            status: Status::Applied,
            reason: None,
            values: vec![value("vm.dirty_ratio", 10, Some(11)), value("\u{1b}[m\n", 5, None)],
            warnings: Vec::new(),
        };
        let mut run = manifest();
        run.sysctls.push(AppliedSysctls { name: "small".to_owned(), applied });
        let told = measured_under(&run, "small", "data");
        assert!(told.starts_with("# Measured under the kernel settings small:\n"), "{told}");
        assert!(told.contains("#   vm.dirty_ratio=11\n"), "{told}");
        assert_eq!((told.lines().count(), told.contains('\u{1b}')), (3, false), "{told}");
        assert!(measured_under(&run, "as-found", "data").contains("that were found"));
        run.sysctls[0].name = "as-found on data".to_owned();
        assert!(measured_under(&run, "as-found", "data").contains("vm.dirty_ratio=11"));
        assert!(measured_under(&run, "as-found", "other").contains("that were found"));
        run.sysctls[0].name = "small".to_owned();
        run.sysctls[0].applied.status = Status::NotApplied;
        assert_eq!(
            measured_under(&run, "small", "data"),
            "# Measured where the kernel settings small were not applied.\n"
        );
        let read = BrokerConf::parse("broker.conf", &told).unwrap();
        assert!(read.notes.is_empty(), "comments alone");
    }

    #[test]
    fn the_usual_settings_have_what_a_broker_has_by_default() {
        let text = "schema: flushmark.profile/v1\nname: own\nworkloads:\n  \
            w: {message_bytes: 1KiB, producers: [1]}\nstrategies:\n  \
            timed: {kind: flush_realtime}\nmatrix: {workloads: [w], strategies: [timed]}\n";
        let sweep = Sweep::parse("own", text).unwrap();
        let settings = sweep.strategies[0].settings;
        let usual = BrokerConf::parse("broker.conf", "").unwrap().strategy.settings;
        assert_eq!(read_back(&settings).0, usual);
    }
}

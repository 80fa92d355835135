//! `cargo xtask log dump`: records in log order, as lines for people or as JSON.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;
use std::ops::RangeToInclusive;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use store_core::{
    Invalid, LogOffset, MessageId, RecordView, TimestampMs, TransactionType, Version,
};
use store_os::{ReadError, StoreReader};

use super::{Store, json, text};
use crate::{exit, say};

/// List a store's records in log order
///
/// A line per record: log offset, size in bytes, store time, topic/queue@queue offset, the body's
/// length, then tags and keys, or how the body begins. A record with ×N behind its queue offset is
/// an inner batch of N messages. What a producer put there is escaped. With --json one object per
/// line with every field, bytes in hexadecimal. Reads one record at a time, writes nothing to the
/// store.
///
/// A damaged place is reported on stderr and passed over. Of what stands behind the last record
/// only some is told to be damage; `log verify` judges the rest.
///
/// Exit codes: 0 ok, 1 wrong command or directory, or the store could not be read, 2 damage was
/// passed over or ends the log.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    store: Store,
    /// Begin at the first record at or behind this log offset [default: the log's first]
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(u64).range(OFFSETS))]
    from: Option<u64>,
    /// End after so many records [default: 20, with --json all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let store = &arguments.store;
    store.check()?;
    let mut reader = StoreReader::open(&store.dir, store.segment_size, store.protection())
        .map_err(|error| super::cannot_read(&error))?;
    let all = if arguments.json { u64::MAX } else { TEXT_COUNT };
    say::stream(|out| {
        let mut dump = Dump {
            out,
            arguments,
            from: arguments.from.map(LogOffset::new),
            begun: false,
            damage: None,
            stored: None,
        };
        dump.seek(&mut reader)?;
        dump.records(&mut reader, arguments.count.unwrap_or(all))
    })
}

struct Dump<'a> {
    out: &'a mut dyn Write,
    arguments: &'a Arguments,
    /// Where to begin, if that was said.
    from: Option<LogOffset>,
    /// Whether a record was listed.
    begun: bool,
    /// A place that holds no record, met and not yet reported: how far it reaches is not known.
    damage: Option<Damage>,
    /// Store time of the last record that was read.
    stored: Option<TimestampMs>,
}

struct Damage {
    at: LogOffset,
    found: String,
    /// Store time of the last record before it, if one was read.
    stored_before: Option<TimestampMs>,
}

impl Dump<'_> {
    /// Goes to where the records are to begin.
    fn seek(&mut self, reader: &mut StoreReader) -> Result<()> {
        let Some(from) = self.from else { return Ok(()) };
        if reader.start() <= from {
            return reader.seek(from).map_err(|error| cannot_read(&error));
        }
        say!("the log begins at offset {}, behind {from}", reader.start());
        self.from = None;
        Ok(())
    }

    fn records(&mut self, reader: &mut StoreReader, count: u64) -> Result<u8> {
        let mut code = exit::OK;
        let mut left = count;
        loop {
            match reader.next_record() {
                Ok(Some(record)) => {
                    if let Some(damage) = self.damage.take() {
                        self.out.flush().context(say::CANNOT_WRITE)?;
                        self.passed_over(&damage, &record);
                        code = exit::INVALID;
                    }
                    self.stored = Some(record.store_timestamp());
                    if self.from.is_some_and(|from| record.log_offset() < from) {
                        continue;
                    }
                    if left == 0 {
                        self.out.flush().context(say::CANNOT_WRITE)?;
                        say!("more: {}", self.go_on(record.log_offset()));
                        return Ok(code);
                    }
                    self.record(&record)?;
                    left -= 1;
                }
                Ok(None) => return self.end(reader, code),
                Err(ReadError::NotARecord { at, found }) => {
                    self.damage = Some(Damage { at, found, stored_before: self.stored });
                    // Nothing valid behind: the reader would stay here.
                    if reader.skip_damage().map_err(|error| cannot_read(&error))?.is_none() {
                        return self.end(reader, code);
                    }
                }
                Err(error) => return Err(cannot_read(&error)),
            }
        }
    }

    fn record(&mut self, record: &RecordView<'_>) -> Result<()> {
        if !self.begun {
            self.begun = true;
            let at = record.log_offset();
            if let Some(from) = self.from.filter(|from| *from != at) {
                let next = format!("; the next one begins at {at}");
                say_folded(&format!("no record begins at offset {from}{next}"));
            }
            if !self.arguments.json {
                say!("{}", heads());
            }
        }
        let line = if self.arguments.json {
            json::inert(serde_json::to_string(&Json::new(record))?)
        } else {
            text_line(record)
        };
        writeln!(self.out, "{line}").context(say::CANNOT_WRITE)
    }

    /// The log's end.
    fn end(&mut self, reader: &mut StoreReader, mut code: u8) -> Result<u8> {
        self.out.flush().context(say::CANNOT_WRITE)?;
        if let Some(Damage { at, found, .. }) = &self.damage {
            say!("nothing valid follows offset {at}:");
            told_below("        ", found);
            let is_closed = self.arguments.store.is_closed();
            if is_no_tail(found) {
                say!("        that is damage and no torn tail:");
                code = exit::INVALID;
            } else if is_anything_behind(reader, *at, is_closed).map_err(|e| cannot_read(&e))? {
                say!("        what is in segments behind it is damage and no torn tail:");
                code = exit::INVALID;
            } else {
                say!("        whether that is a torn tail or damage is judged by");
            }
            say!("        {}", self.arguments.store.command("verify"));
        }
        match self.from {
            Some(from) if !self.begun => {
                let end = log_end(reader, from).map_err(|error| cannot_read(&error))?;
                if from != end {
                    bail!("no record begins at offset {from} or behind it; the log ends at {end}");
                }
                if self.damage.is_none() {
                    say!("the log ends at offset {end}");
                }
            }
            None if !self.begun => say!("there is no record"),
            _ => {}
        }
        Ok(code)
    }

    /// The command that lists what follows.
    fn go_on(&self, from: LogOffset) -> String {
        let mut command = format!("{} --from {from}", self.arguments.store.command("dump"));
        if let Some(count) = self.arguments.count {
            let _ = write!(command, " --count {count}");
        }
        if self.arguments.json {
            command.push_str(" --json");
        }
        command
    }

    fn passed_over(&self, damage: &Damage, next: &RecordView<'_>) {
        let Damage { at, found, stored_before } = damage;
        let length = text::plural(next.log_offset().since(*at), "byte");
        let next_at = next.log_offset();
        let what = format!("damage: {length} passed over at offset {at}; the next record is at ");
        say_folded(&format!("{what}{next_at}"));
        told_below("        ", found);
        if stored_before.is_some_and(|before| next.store_timestamp() < before) {
            say!("        that one was stored earlier, perhaps left over from an earlier cut:");
            say!("        {}", self.arguments.store.command("verify"));
        }
    }
}

/// Whether what was found where nothing valid follows is damage whatever stands behind it. A crash
/// leaves no record of elsewhere and takes no segment.
fn is_no_tail(found: &str) -> bool {
    let elsewhere = Invalid::Place { stored: LogOffset::ZERO }.to_string();
    found.starts_with(elsewhere.trim_end_matches('0'))
        || [SEGMENT_MISSING, UNREADABLE].contains(&found)
}

/// Whether behind the segment of `at`, where nothing valid follows, there is what is no torn tail:
/// a segment that another one is missing before or, if the log was closed, any data.
fn is_anything_behind(
    reader: &mut StoreReader,
    at: LogOffset,
    is_closed: bool,
) -> Result<bool, ReadError> {
    let size = reader.segment_size();
    let mut start = size.start_of(at);
    loop {
        let Some(next) = start.checked_add(size.bytes()) else { return Ok(false) };
        start = next;
        reader.seek(start)?;
        match reader.next_record() {
            Ok(_) => return Ok(false),
            Err(ReadError::NotARecord { at, found }) => {
                // A zeroed segment of a row says so because of data in those behind it.
                if found == SEGMENT_MISSING || is_closed {
                    return Ok(true);
                }
                start = size.start_of(at);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Says what was found, in lines that begin with `indent`.
fn told_below(indent: &str, found: &str) {
    for line in text::wrapped(&text::escaped(found.as_bytes()), text::COLUMNS - indent.len()) {
        say!("{indent}{line}");
    }
}

/// Says a line that its numbers can make longer than a terminal's.
fn say_folded(line: &str) {
    say!("{}", text::folded(line, text::COLUMNS).join("\n        "));
}

/// Where the log ends, which is at `behind` or before it. Looks for the last segment with a record.
fn log_end(reader: &mut StoreReader, behind: LogOffset) -> Result<LogOffset, ReadError> {
    let size = reader.segment_size().bytes();
    let start = |segment: u64| LogOffset::new(segment * size);
    let (mut last, mut none) = (reader.start().get() / size, behind.get() / size + 1);
    while none - last > 1 {
        let middle = last.midpoint(none);
        reader.seek(start(middle))?;
        if reader.skip_damage()?.is_some() {
            last = middle;
        } else {
            none = middle;
        }
    }
    reader.seek(start(last))?;
    loop {
        let damaged_at = match reader.next_record() {
            Ok(Some(_)) => continue,
            Ok(None) => return Ok(reader.offset()),
            Err(ReadError::NotARecord { at, .. }) => at,
            Err(error) => return Err(error),
        };
        if reader.skip_damage()?.is_none() {
            return Ok(damaged_at);
        }
    }
}

fn cannot_read(error: &ReadError) -> anyhow::Error {
    anyhow!("{}", text::escaped(error.to_string().as_bytes()))
}

fn heads() -> String {
    format!(
        "{:>OFFSET$} {:>SIZE$}  {:<TIME$}  topic/queue@offset, body, tags",
        "offset", "size", "stored"
    )
}

/// A record in 80 columns, or more if its numbers need them.
fn text_line(record: &RecordView<'_>) -> String {
    let mut line = format!(
        "{:>OFFSET$} {:>SIZE$}  {:<TIME$}  ",
        record.log_offset(),
        record.total_size(),
        text::time(record.store_timestamp())
    );
    let batch = match record.message_count() {
        1 => String::new(),
        count => format!(" ×{count}"),
    };
    let (queue, at) = (record.queue_id().get(), record.queue_offset().get());
    let place = format!("/{queue}@{at}{batch}  {} B", record.body().len());
    let room = text::COLUMNS.saturating_sub(line.len() + text::columns(&place)).max(LEAST_TOPIC);
    let _ = write!(line, "{}{place}", text::clipped(&text::escaped(record.topic()), room));
    let about = about(record);
    let room = text::COLUMNS.saturating_sub(text::columns(&line) + 2);
    if !about.is_empty() && room >= LEAST_ABOUT {
        let _ = write!(line, "  {}", text::clipped(&about, room));
    }
    line
}

/// Tags and keys; of a record with neither, how its body begins, if that is text.
fn about(record: &RecordView<'_>) -> String {
    let pair = |name: &'static str| {
        let value = record.properties().last(name.as_bytes())?;
        Some(format!("{name}={}", text::escaped(value)))
    };
    let pairs: Vec<String> = [pair("TAGS"), pair("KEYS")].into_iter().flatten().collect();
    if !pairs.is_empty() {
        return pairs.join(" ");
    }
    let body = record.body();
    let beginning = body.get(..LONGEST_BEGINNING).unwrap_or(body);
    let beginning = match std::str::from_utf8(beginning) {
        Ok(text) => text,
        // The cut went through a character.
        Err(error) if error.error_len().is_none() && beginning.len() < body.len() => {
            std::str::from_utf8(&beginning[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => "",
    };
    if beginning.is_empty() || !text::is_printable(beginning.as_bytes()) {
        return String::new();
    }
    format!("\"{beginning}\"")
}

/// A record with every field.
#[derive(Debug, Serialize)]
struct Json<'a> {
    offset: u64,
    size: u32,
    version: u8,
    topic: Cow<'a, str>,
    topic_hex: String,
    queue_id: i32,
    queue_offset: u64,
    flag: i32,
    sys_flag: u32,
    transaction: &'static str,
    born_timestamp_ms: i64,
    born_host: String,
    store_timestamp_ms: i64,
    store_host: String,
    message_count: u16,
    reconsume_times: i32,
    prepared_transaction_offset: i64,
    body_crc: u32,
    body_crc_ok: bool,
    record_crc: Option<u64>,
    record_crc_ok: Option<bool>,
    properties: Vec<[Cow<'a, str>; 2]>,
    properties_hex: String,
    message_id: String,
    body_hex: String,
}

impl<'a> Json<'a> {
    fn new(record: &RecordView<'a>) -> Self {
        let record_crc = record.record_crc();
        Self {
            offset: record.log_offset().get(),
            size: record.total_size(),
            version: match record.version() {
                Version::V1 => 1,
                Version::V2 => 2,
            },
            topic: String::from_utf8_lossy(record.topic()),
            topic_hex: text::hex(record.topic()),
            queue_id: record.queue_id().get(),
            queue_offset: record.queue_offset().get(),
            flag: record.flag(),
            sys_flag: record.sys_flag().bits(),
            transaction: match record.sys_flag().transaction_type() {
                TransactionType::Commit => "commit",
                TransactionType::None => "none",
                TransactionType::Prepared => "prepared",
                TransactionType::Rollback => "rollback",
            },
            born_timestamp_ms: record.born_timestamp().get(),
            born_host: record.born_host().to_string(),
            store_timestamp_ms: record.store_timestamp().get(),
            store_host: record.store_host().to_string(),
            message_count: record.message_count(),
            reconsume_times: record.reconsume_times(),
            prepared_transaction_offset: record.prepared_transaction_offset(),
            body_crc: record.body_crc(),
            body_crc_ok: record.body_crc_matches(),
            record_crc: record_crc.filter(|stored| *stored <= LARGEST_RECORD_CRC),
            record_crc_ok: record_crc.map(|_| record.record_crc_matches()),
            properties: record
                .properties()
                .map(|pair| [pair.name, pair.value].map(String::from_utf8_lossy))
                .collect(),
            properties_hex: text::hex(record.property_string()),
            message_id: MessageId::new(record.store_host(), record.log_offset()).to_string(),
            body_hex: text::hex(record.body()),
        }
    }
}

/// What the ten digits of a CRC32 property can hold. A property that is damaged beyond reading has
/// no value to list; then only `record_crc_ok` says that it is there.
const LARGEST_RECORD_CRC: u64 = 9_999_999_999;

/// What a reader says of a missing segment, and of what cannot be read.
const SEGMENT_MISSING: &str = "its segment is missing";
const UNREADABLE: &str = "it cannot be read";

/// Records listed as text unless another count is given: a screen.
const TEXT_COUNT: u64 = 20;

/// What offsets a log can have.
const OFFSETS: RangeToInclusive<u64> = ..=LogOffset::MAX.get();

/// Columns of the line's fixed part.
const OFFSET: usize = 12;
const SIZE: usize = 7;
const TIME: usize = 24;

/// A topic keeps so many columns, and below so many nothing is said about tags and keys.
const LEAST_TOPIC: usize = 8;
const LEAST_ABOUT: usize = 6;

/// So many bytes of a body are looked at; they are more than a line shows.
const LONGEST_BEGINNING: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use store_core::{
        Destination, Frame, Host, LogOffset, Message, Placed, Protection, QueueId, QueueOffset,
        TimestampMs, Topic, decode, encode,
    };

    /// Encodes a record at offset 1000, queue offset 7 of queue 3, and gives it to `look`.
    fn with_record(
        topic: &[u8],
        message: &Message<'_>,
        protection: Protection,
        look: impl FnOnce(&RecordView<'_>),
    ) {
        let mut bytes = vec![0; 4096];
        let to = Destination { topic: Topic::new(topic).unwrap(), queue_id: QueueId::new(3) };
        let encoded = encode(to, message, protection, &mut bytes).unwrap();
        encoded.place(&Placed {
            log_offset: LogOffset::new(1000),
            queue_offset: QueueOffset::new(7),
            store_timestamp: TimestampMs::new(1_795_957_621_653),
        });
        let Ok(Frame::Record(record)) = decode(&bytes) else { panic!("a record was encoded") };
        look(&record);
    }

    #[track_caller]
    fn check_line(topic: &[u8], body: &[u8], properties: &[u8], expect: &str) {
        let message = Message { body, properties, ..Message::default() };
        with_record(topic, &message, Protection::Body, |record| {
            let size = record.total_size();
            let line = text_line(record);
            let prefix = format!("{:>12} {size:>7}  2026-11-29T13:07:01.653Z  ", 1000);
            assert_eq!(line.strip_prefix(&prefix), Some(expect), "{line}");
            assert!(text::columns(&line) <= text::COLUMNS, "{line}");
        });
    }

    #[test]
    fn a_line_fits_80_columns_and_nothing_in_it_reaches_the_terminal_raw() {
        check_line(b"orders", b"", b"", "orders/3@7  0 B");
        check_line(b"o", b"one espresso", b"", "o/3@7  12 B  \"one espresso\"");
        check_line(b"o", b"one espresso, one macchiato", b"", "o/3@7  27 B  \"one espresso, one…");
        check_line(b"o", b"body", b"TAGS\x01t\x02KEYS\x01k\x02", "o/3@7  4 B  TAGS=t KEYS=k");
        check_line(b"o", b"body", b"KEYS\x01a\x1b[2J\x02", r"o/3@7  4 B  KEYS=a\u{1b}[2J");
        check_line(b"a\x1b[2J", b"\x00", b"", r"a\u{1b}[2J/3@7  1 B");
        check_line("主题".as_bytes(), &[b'x'; 999], b"", "主题/3@7  999 B  \"xxxxxxxxxxxxx…");
        let long = [b't'; 200];
        check_line(&long, b"body", b"TAGS\x01t\x02", &format!("{}…/3@7  4 B", "t".repeat(22)));
    }

    #[test]
    fn the_head_fits_80_columns_and_stands_over_the_rows() {
        assert!(text::columns(&heads()) <= text::COLUMNS);
        let message = Message::default();
        with_record(b"o", &message, Protection::Body, |record| {
            let line = text_line(record);
            assert_eq!(line.find("o/3@7"), heads().find("topic"), "{line}");
            assert_eq!(line.find("2026"), heads().find("stored"), "{line}");
        });
    }

    #[test]
    fn a_body_that_is_no_text_is_not_shown_and_one_cut_in_a_character_is() {
        check_line(b"o", b"\x1f\x8b\x08", b"", "o/3@7  3 B");
        check_line(b"o", b"text, then\xff", b"", "o/3@7  11 B");
        check_line(
            b"o",
            "é".repeat(40).as_bytes(),
            b"",
            &format!("o/3@7  80 B  \"{}…", "é".repeat(17)),
        );
        let odd = format!("a{}", "é".repeat(40));
        check_line(b"o", odd.as_bytes(), b"", &format!("o/3@7  81 B  \"a{}…", "é".repeat(16)));
    }

    #[test]
    fn json_has_every_field_of_the_record() {
        let message = Message {
            body: b"\x00\xff",
            properties: b"TAGS\x01t\xff\x02",
            flag: -3,
            born_timestamp: TimestampMs::new(5),
            store_host: Host::new([10, 0, 0, 7].into(), 10911),
            ..Message::default()
        };
        with_record(b"orders", &message, Protection::Record, |record| {
            let json = serde_json::to_value(Json::new(record)).unwrap();
            let crc = record.record_crc().unwrap();
            let properties = record.property_string();
            let digits = text::escaped(&properties[17..27]);
            assert_eq!(
                json,
                serde_json::json!({
                    "offset": 1000,
                    "size": record.total_size(),
                    "version": 1,
                    "topic": "orders",
                    "topic_hex": "6f7264657273",
                    "queue_id": 3,
                    "queue_offset": 7,
                    "flag": -3,
                    "sys_flag": 0,
                    "transaction": "none",
                    "born_timestamp_ms": 5,
                    "born_host": "0.0.0.0:0",
                    "store_timestamp_ms": 1_795_957_621_653_i64,
                    "store_host": "10.0.0.7:10911",
                    "message_count": 1,
                    "reconsume_times": 0,
                    "prepared_transaction_offset": 0,
                    "body_crc": record.body_crc(),
                    "body_crc_ok": true,
                    "record_crc": crc,
                    "record_crc_ok": true,
                    "properties": [["TAGS", "t\u{fffd}"], ["__CRC32#", digits]],
                    "properties_hex": text::hex(properties),
                    "message_id": "0A00000700002A9F00000000000003E8",
                    "body_hex": "00ff",
                })
            );
        });
        let plain = Message { properties: b"TAGS\x01t\x02", ..message };
        with_record(b"orders", &plain, Protection::Body, |record| {
            let json = serde_json::to_value(Json::new(record)).unwrap();
            assert_eq!((&json["record_crc"], &json["record_crc_ok"]), (&().into(), &().into()));
        });
    }
}

//! The deciding half of a commit log in Apache RocketMQ's on-disk format.
//!
//! Everything here is a function of its arguments: no file, clock, thread or allocator. An engine
//! brings its own runtime and asks this crate three things: what the bytes of a record are
//! ([`encode`], [`decode`]), where they go ([`place`]), and what a flush strategy wants next
//! ([`FlushStrategy`]).
//!
//! On-disk integers are big-endian. `docs/FORMAT.md` has the byte tables.
//!
//! # Examples
//!
//! ```
//! use store_core::{
//!     decode, encode, Destination, Frame, Message, Placed, Protection, QueueId, Topic,
//! };
//!
//! let to = Destination { topic: Topic::new(b"orders").unwrap(), queue_id: QueueId::new(3) };
//! let message = Message { body: b"one espresso", ..Message::default() };
//! let mut buffer = [0; 256];
//! let record = encode(to, &message, Protection::Record, &mut buffer).unwrap();
//! record.place(&Placed::default());
//!
//! let Frame::Record(view) = decode(&buffer).unwrap() else { panic!("not a blank") };
//! assert_eq!(view.body(), b"one espresso");
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod batch;
mod checkpoint;
mod crc;
mod host;
mod message_id;
mod offset;
mod property;
mod protection;
mod record;
mod scan;
mod segment;
mod stored_properties;
mod strategy;
mod sysflag;
mod topic;
mod view;
mod watermark;

pub use batch::{Batch, BatchError, BatchField, BatchMember, encode_batch};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use crc::crc32;
pub use host::Host;
pub use message_id::MessageId;
pub use offset::{LogOffset, QueueId, QueueOffset, TimestampMs, length_u64};
pub use property::{Properties, Property};
pub use protection::Protection;
pub use record::{
    BLANK_LEN, Destination, EncodeError, Encoded, MAX_PROPERTIES_LEN, Message, Placed, encode,
    encode_blank, encode_in,
};
pub use scan::{Invalid, PROBE_LEN, Step, record_at, scan_step};
pub use segment::{
    PAGE_SIZE, Placement, RecordTooLarge, SegmentName, SegmentSize, SegmentSizeError,
    is_worth_a_pass, pages_crossed, place,
};
pub use strategy::{AckAt, Action, Event, FlushStrategy, Lane, Nanos, Observed, Wait};
pub use sysflag::{SysFlag, TransactionType};
pub use topic::{MAX_TOPIC_LEN, Topic, TopicError, Version};
pub use view::{DecodeError, Field, Frame, Magic, RecordView, decode};
pub use watermark::Watermarks;

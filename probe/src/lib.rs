//! Links the core and the strategies without std and without an allocator.
//!
//! A dependency on `std` stops this build with "duplicate lang item", one on `alloc` with "no
//! global memory allocator". It needs no target but the host's.
#![no_std]

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use store_core::{
    Action, Destination, FlushStrategy, Frame, Lane, LogOffset, Message, MessageId, Nanos,
    Observed, Placed, Placement, Properties, Protection, QueueId, SegmentName, SegmentSize, Topic,
    decode, encode, place,
};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Uses every part once; gives a number so that nothing is optimised away.
#[unsafe(no_mangle)]
pub extern "C" fn flushmark_probe(length: u32) -> u64 {
    let mut buffer = [0; 256];
    let Ok(topic) = Topic::new(b"probe") else { return 1 };
    let to = Destination { topic, queue_id: QueueId::new(0) };
    let message = Message { body: b"body", ..Message::default() };
    let Ok(record) = encode(to, &message, Protection::Record, &mut buffer) else { return 2 };
    record.place(&Placed::default());
    let Ok(Frame::Record(view)) = decode(&buffer) else { return 3 };
    let id = MessageId::new(view.store_host(), view.log_offset());
    let properties = Properties::new(view.property_string()).count();
    let name = SegmentName::new(LogOffset::new(u64::from(length)));
    let placed = match place(SegmentSize::ROCKETMQ_DEFAULT, LogOffset::ZERO, length) {
        Ok(Placement::Fits { at } | Placement::Roll { at, .. }) => at.get(),
        Err(_) => 4,
    };
    let polls = poll(GroupCommit::default())
        + poll(FlushRealtime::default())
        + poll(CommitRealtime::default());
    let sizes = id.as_str().len() + properties + name.as_str().len();
    placed + polls + u64::try_from(sizes).unwrap_or(0)
}

fn poll(mut strategy: impl FlushStrategy) -> u64 {
    match strategy.poll(Lane::Flush, Nanos::new(1), &Observed::default()) {
        Action::Sleep(until) => until.get(),
        Action::Commit(upto) | Action::Flush(upto) => upto.get(),
        Action::Idle | Action::Done => 0,
    }
}

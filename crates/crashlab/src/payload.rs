//! Messages whose content follows from a run's seed.

use store_core::QueueId;

use crate::random::Random;

/// Names a message of a run; what it holds follows from the run's [`Shape`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Sent {
    /// Who sent it: `0..producers`.
    pub producer: u32,
    /// How many that producer had sent before.
    pub index: u64,
}

impl std::fmt::Display for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "message {} of producer {}", self.index, self.producer)
    }
}

/// How the messages of a run look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// What bodies and their lengths follow from.
    pub seed: u64,
    /// How many producers send; each has a queue of its own.
    pub producers: u32,
    /// The shortest body, in bytes; less than [`Shape::MIN_BODY`] counts as that.
    pub min_body: u32,
    /// The longest body, in bytes; less than the shortest counts as that.
    pub max_body: u32,
}

/// What a message holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Content {
    /// The topic.
    pub topic: Vec<u8>,
    /// The queue within the topic.
    pub queue_id: QueueId,
    /// Producer and index, big-endian, then bytes that follow from the seed.
    pub body: Vec<u8>,
}

impl Shape {
    /// The shortest body there is: its name, and enough to tell two runs apart.
    pub const MIN_BODY: u32 = 16;

    /// The topic of a producer's queue; producers share a few.
    pub fn topic(&self, producer: u32) -> Vec<u8> {
        format!("crash-{}", producer % TOPICS).into_bytes()
    }

    /// The number of a producer's queue: the producer's own.
    ///
    /// # Panics
    ///
    /// If there are more than `i32::MAX` producers.
    pub fn queue_id(&self, producer: u32) -> QueueId {
        QueueId::new(i32::try_from(producer).expect("queue numbers are i32"))
    }

    /// What the message named `sent` holds.
    pub fn content(&self, sent: Sent) -> Content {
        Content {
            topic: self.topic(sent.producer),
            queue_id: self.queue_id(sent.producer),
            body: self.body(sent),
        }
    }

    /// The body of the message named `sent`.
    pub fn body(&self, sent: Sent) -> Vec<u8> {
        let mut random = Random::of(self.seed ^ sent.index, u64::from(sent.producer));
        let shortest = self.min_body.max(Self::MIN_BODY);
        let len = random.between(shortest.into(), self.max_body.into());
        let mut body = vec![0; usize::try_from(len).expect("a body fits memory")];
        body[PRODUCER].copy_from_slice(&sent.producer.to_be_bytes());
        body[INDEX].copy_from_slice(&sent.index.to_be_bytes());
        random.fill(&mut body[NAME_LEN..]);
        body
    }

    /// The name that a body begins with, if it can be one of this run.
    pub fn name(&self, body: &[u8]) -> Option<Sent> {
        let producer = u32::from_be_bytes(body.get(PRODUCER)?.try_into().ok()?);
        let index = u64::from_be_bytes(body.get(INDEX)?.try_into().ok()?);
        Some(Sent { producer, index }).filter(|sent| sent.producer < self.producers)
    }
}

const TOPICS: u32 = 3;
const PRODUCER: std::ops::Range<usize> = 0..4;
const INDEX: std::ops::Range<usize> = 4..12;
const NAME_LEN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { seed: 5, producers: 4, min_body: 16, max_body: 90 };

    #[test]
    fn content_follows_from_seed_and_name_alone() {
        let sent = Sent { producer: 3, index: 1 << 40 };
        let content = SHAPE.content(sent);
        assert_eq!(content, SHAPE.content(sent));
        assert_ne!(content.body, Shape { seed: 6, ..SHAPE }.content(sent).body);
        assert_ne!(content.body, SHAPE.content(Sent { index: 1, ..sent }).body);
        assert_eq!(content.queue_id, QueueId::new(3));
        assert_eq!(content.topic, SHAPE.topic(0), "producers share topics");
    }

    #[test]
    fn a_body_says_its_name_and_keeps_to_its_lengths() {
        let mut lengths = std::collections::BTreeSet::new();
        for index in 0..2000 {
            let sent = Sent { producer: 2, index };
            let body = SHAPE.content(sent).body;
            assert_eq!(SHAPE.name(&body), Some(sent));
            lengths.insert(body.len());
        }
        assert_eq!(lengths.first(), Some(&16));
        assert_eq!(lengths.last(), Some(&90));
        let foreign = Shape { producers: 9, ..SHAPE }.content(Sent { producer: 4, index: 0 });
        assert_eq!(SHAPE.name(&foreign.body), None);
        assert_eq!(SHAPE.name(&foreign.body[..11]), None);
    }

    #[test]
    fn lengths_that_cannot_be_are_made_the_shortest() {
        let tiny = Shape { min_body: 0, max_body: 0, ..SHAPE };
        assert_eq!(tiny.content(Sent { producer: 0, index: 0 }).body.len(), 16);
    }
}

//! A broker's own configuration: what it gives, what is refused, what is only told.

use super::*;

#[track_caller]
fn conf(text: &str) -> BrokerConf {
    BrokerConf::parse("broker.conf", text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// All that is told of a text that is taken.
#[track_caller]
fn notes(text: &str) -> Vec<String> {
    conf(text).notes.iter().map(Finding::to_string).collect()
}

#[track_caller]
fn check_refused(text: &str, expect: &str) {
    let errors = BrokerConf::parse("broker.conf", text).expect_err(text);
    assert_eq!(without_warnings(&errors), expect, "{text}");
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn an_empty_file_has_rocketmqs_defaults() {
    let empty = conf("");
    assert_eq!((empty.segment_bytes, empty.notes), (1 << 30, Vec::new()));
    assert_eq!(empty.strategy.name, "broker-conf");
    let expect = Settings::FlushRealtime {
        interval: millis(500),
        least_pages: 4,
        thorough: millis(10_000),
        timed: true,
        io: Io::Mapped,
        prealloc: Prealloc::Fallocate,
    };
    assert_eq!(empty.strategy.settings, expect);
    let sync = Settings::GroupCommit {
        timeout: millis(5000),
        gather: Duration::ZERO,
        siblings: 5,
        lead: false,
        io: Io::Mapped,
        prealloc: Prealloc::Fallocate,
    };
    assert_eq!(conf("flushDiskType=SYNC_FLUSH").strategy.settings, sync);
    let staged = Settings::CommitRealtime {
        commit: millis(200),
        commit_least_pages: 4,
        commit_thorough: millis(200),
        interval: millis(500),
        least_pages: 4,
        thorough: millis(10_000),
        staging_bytes: 1 << 30,
        io: Io::Positioned,
        prealloc: Prealloc::Fallocate,
    };
    assert_eq!(conf("transientStorePoolEnable=true").strategy.settings, staged);
}

#[test]
fn each_key_reaches_its_setting() {
    let timed = "flushDiskType = ASYNC_FLUSH\nflushIntervalCommitLog: 1\n\
                 flushCommitLogLeastPages 2\nflushCommitLogThoroughInterval=3\n\
                 flushCommitLogTimed=FALSE\nwakeFlushWhenPutMessage=true\n\
                 mappedFileSizeCommitLog=67108864\nwriteWithoutMmap=true\n\
                 warmMapedFileEnable=true\n";
    let timed = conf(timed);
    let expect = Settings::FlushRealtime {
        interval: millis(1),
        least_pages: 2,
        thorough: millis(3),
        timed: false,
        io: Io::Positioned,
        prealloc: Prealloc::Zero,
    };
    assert_eq!((timed.strategy.settings, timed.segment_bytes), (expect, 64 << 20));
    assert_eq!(timed.notes, []);
    let sync = conf("flushDiskType=SYNC_FLUSH\nsyncFlushTimeout=7\n").strategy.settings;
    assert!(
        matches!(sync, Settings::GroupCommit { timeout, .. } if timeout == millis(7)),
        "{sync:?}"
    );
    let staged = "transientStorePoolEnable=true\ntransientStorePoolSize=3\n\
                  mappedFileSizeCommitLog=16777216\ncommitIntervalCommitLog=1\n\
                  commitCommitLogLeastPages=2\ncommitCommitLogThoroughInterval=0\n\
                  flushIntervalCommitLog=4\nflushCommitLogLeastPages=5\n\
                  flushCommitLogThoroughInterval=6\n";
    let expect = Settings::CommitRealtime {
        commit: millis(1),
        commit_least_pages: 2,
        commit_thorough: millis(0),
        interval: millis(4),
        least_pages: 5,
        thorough: millis(6),
        staging_bytes: 48 << 20,
        io: Io::Positioned,
        prealloc: Prealloc::Fallocate,
    };
    assert_eq!(conf(staged).strategy.settings, expect);
    assert_eq!(notes(staged), [""; 0]);
}

#[test]
fn what_has_no_effect_is_told() {
    let text = "\
# A broker as it is.
brokerName=broker-a
flushDiskTyp=SYNC_FLUSH
someThingElse=1
flushIntervalCommitLog=500
flushIntervalCommitLog=100
syncFlushTimeout=3000
transientStorePoolSize=5
brokerRole=SYNC_MASTER
maxMessageSize=65536
flushCommitLogTimed=false
";
    assert_eq!(
        notes(text),
        [
            "broker.conf:2:1: note: `brokerName` has no effect here",
            "broker.conf:3:1: note: `flushDiskTyp` is not known here; did you mean \
             `flushDiskType`?",
            "broker.conf:4:1: note: `someThingElse` is not known here",
            "broker.conf:6:1: note: `flushIntervalCommitLog` is there twice (line 5): this one \
             counts",
            "broker.conf:7:1: note: `syncFlushTimeout` has no effect with \
             flushDiskType=ASYNC_FLUSH and no transient pool",
            "broker.conf:8:1: note: `transientStorePoolSize` has no effect with \
             flushDiskType=ASYNC_FLUSH and no transient pool",
            "broker.conf:9:1: note: brokerRole=SYNC_MASTER has no effect here: nothing is \
             replicated",
            "broker.conf:10:1: note: `maxMessageSize` has no effect here: a sweep's workloads say \
             how long messages are",
            "broker.conf:11:1: note: flushCommitLogTimed=false changes nothing without \
             wakeFlushWhenPutMessage=true, as in RocketMQ 5: nothing wakes the flush before its \
             interval is over (4.x woke it with each message)",
        ]
    );
    let settings = conf(text).strategy.settings;
    assert!(
        matches!(settings, Settings::FlushRealtime { interval, timed: true, .. }
            if interval == millis(100)),
        "{settings:?}"
    );
    assert_eq!(
        notes("transientStorePoolEnable=true"),
        ["broker.conf:1:1: note: the pool of 5 buffers with 1073741824 bytes each is one staging \
          buffer of 1073741824 bytes here"]
    );
}

#[test]
fn all_bad_values_are_told_with_their_places() {
    check_refused(
        "flushDiskType=SYNC\nflushIntervalCommitLog=0\nflushCommitLogTimed=yes\n  \
         mappedFileSizeCommitLog = 1G\nsyncFlushTimeout=500 \n\
         transientStorePoolSize=0",
        "\
broker.conf:1:15: error: flushDiskType: `SYNC` is not a choice (have: ASYNC_FLUSH, SYNC_FLUSH)
broker.conf:2:24: error: flushIntervalCommitLog: 0 is out of range (1 to 3600000)
broker.conf:3:21: error: flushCommitLogTimed: `yes` is not a choice (have: true, false)
broker.conf:4:29: error: mappedFileSizeCommitLog: `1G` is not a whole number (4096 to 2147483647)
broker.conf:5:18: error: syncFlushTimeout: `500 ` is not a whole number (1 to 3600000)
broker.conf:6:24: error: transientStorePoolSize: 0 is out of range (1 to 1024)",
    );
}

#[test]
fn pairs_that_lose_or_never_end_are_refused() {
    check_refused(
        "flushDiskType=SYNC_FLUSH\n\ntransientStorePoolEnable=true\n",
        "broker.conf:3:26: error: transientStorePoolEnable=true and flushDiskType=SYNC_FLUSH (line \
         1) exclude each other: a message waits for the commit thread as well, about 200 ms, and \
         before RocketMQ 5.2 it always timed out (apache/rocketmq#7523)",
    );
    check_refused(
        "transientStorePoolEnable=true\nwriteWithoutMmap=true\n",
        "broker.conf:1:26: error: transientStorePoolEnable=true and writeWithoutMmap=true (line 2) \
         exclude each other: RocketMQ then has no pool",
    );
    check_refused(
        "brokerRole=SLAVE",
        "broker.conf:1:12: error: brokerRole=SLAVE: a slave takes no messages from producers; give \
         the configuration of its master",
    );
    check_refused(
        "maxMessageSize=1048576\nmappedFileSizeCommitLog=1048576",
        "broker.conf:1:16: error: maxMessageSize: a message of 1048576 bytes does not fit into a \
         segment of 1048576 bytes (mappedFileSizeCommitLog): RocketMQ answers PUT_OK and does not \
         store it",
    );
    check_refused(
        "a=\\u00",
        "broker.conf:1:3: error: a \\u is followed by the four digits of a character",
    );
}

#[test]
fn a_sweep_takes_it_instead_of_its_strategies_and_keeps_it() {
    let text = "flushDiskType=SYNC_FLUSH\nmappedFileSizeCommitLog=16777216\n# é\\";
    let conf = conf(text);
    let quick = Sweep::load("quick", &root()).unwrap();
    let sweep = quick.clone().with_broker_conf(&conf).unwrap();
    let names: Vec<&str> = sweep.strategies.iter().map(|how| how.name.as_str()).collect();
    assert_eq!((names, sweep.segment_bytes), (vec!["none", "broker-conf"], 16 << 20));
    assert_eq!(sweep.strategies[1].settings.kind(), Kind::GroupCommit);
    let kept = "\n--- # broker.conf\n# flushDiskType=SYNC_FLUSH\n\
                # mappedFileSizeCommitLog=16777216\n# # é\\\n";
    assert_eq!(sweep.text, format!("{}{kept}", quick.text.trim_end()));
    assert_eq!(Sweep::parse("profile.yaml", &sweep.text).unwrap().text, sweep.text);
    let again = Sweep::parse("profile.yaml", &sweep.text).unwrap();
    assert_eq!((&again.strategies, again.segment_bytes), (&sweep.strategies, 16 << 20));
    // Another one takes its place.
    let other = super::BrokerConf::parse("other.conf", "").unwrap();
    let other = sweep.with_broker_conf(&other).unwrap();
    assert_eq!(other.segment_bytes, 1 << 30);
    assert_eq!(other.text, format!("{}\n--- # broker.conf\n", quick.text.trim_end()));
    assert_eq!(Sweep::parse("profile.yaml", &other.text).unwrap().strategies, other.strategies);
}

#[test]
fn a_sweeps_messages_have_to_fit_into_its_segments() {
    let small = conf("flushDiskType=SYNC_FLUSH\nmappedFileSizeCommitLog=8192\n");
    let full = Sweep::load("full", &root()).unwrap();
    let errors = full.with_broker_conf(&small).unwrap_err().to_string();
    assert_eq!(
        errors,
        "broker.conf:2:25: error: mappedFileSizeCommitLog: the largest message of the sweep full \
         (a record of 16584 bytes) does not fit into a segment of 8192 bytes"
    );
}

#[test]
fn hostile_files_are_refused_quickly() {
    const LONG: usize = 1 << 17;
    let before = now();
    let keys: String = (0..20_000)
        .map(|n| n.to_string())
        .flat_map(|n| ["k".to_owned(), n, "=1\n".to_owned()])
        .collect();
    for text in [
        " ".repeat((256 << 10) + 1),
        keys.clone(),
        "\\\n".repeat(LONG),
        format!("flushDiskType={}", "x".repeat(LONG)),
        format!("flushIntervalCommitLog={}", "9".repeat(LONG)),
        format!("flushDiskType={}", "\\u0041".repeat(LONG / 6)),
        "brokerRole=\u{1b}[31m\u{7}\0".to_owned(),
    ] {
        let refused = BrokerConf::parse("b", &text).map(|conf| conf.notes);
        let what: String = text.chars().take(30).collect();
        let told = match refused {
            Ok(notes) => notes.iter().map(Finding::to_string).collect(),
            Err(errors) => errors.to_string(),
        };
        assert!(told.lines().all(|line| line.len() < 4096), "{what}: {told}");
        assert!(told.chars().all(|c| !c.is_control() || c == '\n'), "{what}: {told:?}");
    }
    // As many unknown keys as are taken, each of which is compared with those that are known.
    let most = notes(keys.split_inclusive('\n').take(2000).collect::<String>().as_str());
    assert_eq!(most.len(), 2000);
    assert!(BrokerConf::parse("b", &keys).unwrap_err().to_string().contains("more than 2000 keys"));
    assert!(now().saturating_sub(before) < Duration::from_secs(20));
}

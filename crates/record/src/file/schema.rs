//! The tables of a recording.

/// Marks a SQLite file as a recording (`PRAGMA application_id`); `memw` in ASCII.
pub const APPLICATION_ID: i64 = 0x6d65_6d77;

/// The version of the tables (`PRAGMA user_version`). Raised when an old reader would misunderstand a new file.
/// 2: call chains and data. 3: sampled loads. 4: inlined functions. Files of earlier versions are read as files without them.
pub const VERSION: i64 = 4;

/// Kept free in every recording, so that a full disk leaves room for how it ended and for the code of the samples.
pub(super) const RESERVE_BYTES: u32 = 256 << 10;

/// Everything but `PRAGMA`s. Numbers are 0-based and dense: row `id` is what other tables name by that number.
pub(super) const TABLES: &str = "
CREATE TABLE about(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE argument(id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE process(
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, parent_pid INTEGER, name TEXT NOT NULL, executable TEXT,
    began_ns INTEGER NOT NULL, ended_ns INTEGER
);
CREATE TABLE thread(
    id INTEGER PRIMARY KEY, tid INTEGER NOT NULL, process INTEGER NOT NULL REFERENCES process, name TEXT NOT NULL,
    began_ns INTEGER NOT NULL, ended_ns INTEGER
);
CREATE TABLE module(
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, kind TEXT NOT NULL, build_id TEXT, problem TEXT
);
CREATE TABLE function(
    id INTEGER PRIMARY KEY, module INTEGER NOT NULL REFERENCES module, symbol TEXT, name TEXT NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, code BLOB
);
CREATE TABLE file(id INTEGER PRIMARY KEY, path TEXT NOT NULL);
CREATE TABLE line(
    id INTEGER PRIMARY KEY, module INTEGER NOT NULL REFERENCES module, start INTEGER NOT NULL,
    end INTEGER NOT NULL, file INTEGER NOT NULL REFERENCES file, line INTEGER NOT NULL
);
CREATE TABLE inlined_call(
    id INTEGER PRIMARY KEY, function TEXT NOT NULL, file INTEGER REFERENCES file, line INTEGER,
    caller INTEGER REFERENCES inlined_call
);
CREATE TABLE inlined_range(
    id INTEGER PRIMARY KEY, module INTEGER NOT NULL REFERENCES module, start INTEGER NOT NULL,
    end INTEGER NOT NULL, call INTEGER NOT NULL REFERENCES inlined_call
);
CREATE TABLE place(
    id INTEGER PRIMARY KEY, module INTEGER NOT NULL REFERENCES module, address INTEGER NOT NULL,
    function INTEGER REFERENCES function
);
CREATE TABLE sample(
    id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, thread INTEGER NOT NULL REFERENCES thread,
    cpu INTEGER NOT NULL, place INTEGER NOT NULL REFERENCES place, address INTEGER, stack INTEGER REFERENCES stack
);
CREATE TABLE burst(
    id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, thread INTEGER NOT NULL REFERENCES thread,
    cpu INTEGER NOT NULL, place INTEGER NOT NULL REFERENCES place, address INTEGER
);
CREATE TABLE pass(
    id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, thread INTEGER NOT NULL REFERENCES thread,
    cpu INTEGER NOT NULL, place INTEGER NOT NULL REFERENCES place, address INTEGER
);
CREATE TABLE load(
    id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, thread INTEGER NOT NULL REFERENCES thread,
    cpu INTEGER NOT NULL, place INTEGER NOT NULL REFERENCES place, address INTEGER, latency_cycles INTEGER,
    origin TEXT
);
CREATE TABLE load_translation(load INTEGER PRIMARY KEY REFERENCES load, at_hand INTEGER NOT NULL);
CREATE TABLE load_sampling(id INTEGER PRIMARY KEY, refusal TEXT);
CREATE TABLE stack(id INTEGER PRIMARY KEY, places TEXT NOT NULL);
CREATE TABLE slice(
    id INTEGER PRIMARY KEY, thread INTEGER NOT NULL REFERENCES thread, slice INTEGER NOT NULL,
    running_ns INTEGER NOT NULL, blocked_ns INTEGER NOT NULL, preempted_ns INTEGER NOT NULL
);
CREATE TABLE area(
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process, start INTEGER NOT NULL,
    end INTEGER NOT NULL, kind TEXT NOT NULL, thread INTEGER REFERENCES thread, path TEXT,
    resident_bytes INTEGER, huge_bytes INTEGER, nodes TEXT
);
CREATE TABLE variable(
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process, start INTEGER NOT NULL,
    end INTEGER NOT NULL, name TEXT NOT NULL, module TEXT NOT NULL
);
CREATE TABLE site(
    id INTEGER PRIMARY KEY, function TEXT NOT NULL, module TEXT NOT NULL, address INTEGER NOT NULL, file TEXT,
    line INTEGER, callers TEXT NOT NULL, variable TEXT
);
CREATE TABLE block(
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process, time_ns INTEGER NOT NULL,
    address INTEGER NOT NULL, size_bytes INTEGER NOT NULL, kind TEXT NOT NULL, tid INTEGER NOT NULL,
    site INTEGER REFERENCES site, stands_for_bytes INTEGER
);
CREATE TABLE heap_log(
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process, inherits INTEGER REFERENCES process,
    began_ns INTEGER NOT NULL, problem TEXT
);
CREATE TABLE relief(
    id INTEGER PRIMARY KEY, module INTEGER NOT NULL REFERENCES module, tid INTEGER NOT NULL, share REAL,
    share_low REAL, share_high REAL, near_ns REAL, turn_ns REAL, document TEXT NOT NULL
);
CREATE TABLE relief_state(id INTEGER PRIMARY KEY, refusal TEXT, cost TEXT);
CREATE TABLE region(id INTEGER PRIMARY KEY, name TEXT NOT NULL, is_parallel INTEGER NOT NULL);
CREATE TABLE region_sample(sample INTEGER PRIMARY KEY, region INTEGER NOT NULL REFERENCES region);
CREATE TABLE region_burst(burst INTEGER PRIMARY KEY, region INTEGER NOT NULL REFERENCES region);
CREATE TABLE region_visits(
    region INTEGER NOT NULL REFERENCES region, thread INTEGER NOT NULL REFERENCES thread, visits INTEGER NOT NULL,
    unended INTEGER NOT NULL, wall_ns INTEGER NOT NULL, PRIMARY KEY(region, thread)
);
CREATE TABLE region_waits(
    region INTEGER NOT NULL REFERENCES region, thread INTEGER NOT NULL REFERENCES thread, waits_ns INTEGER NOT NULL,
    PRIMARY KEY(region, thread)
);
CREATE TABLE region_counts(
    region INTEGER NOT NULL REFERENCES region, thread INTEGER NOT NULL REFERENCES thread, visits INTEGER NOT NULL,
    minor_faults INTEGER NOT NULL, major_faults INTEGER NOT NULL, voluntary_switches INTEGER NOT NULL,
    involuntary_switches INTEGER NOT NULL, PRIMARY KEY(region, thread)
);
CREATE TABLE events_done(
    id INTEGER PRIMARY KEY, done INTEGER NOT NULL, skipped INTEGER NOT NULL, first_ns INTEGER, last_ns INTEGER NOT NULL
);
CREATE TABLE remark(id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE reserve(id INTEGER PRIMARY KEY, room BLOB);
CREATE VIEW located AS
    SELECT sample.id AS sample, sample.time_ns / 1e9 AS time_s, process.pid, thread.tid, thread.name AS thread,
        sample.cpu, module.path AS module, function.name AS function,
        printf('%#x', place.address) AS place, printf('%#x', sample.address) AS address
    FROM sample
    JOIN thread ON thread.id = sample.thread
    JOIN process ON process.id = thread.process
    JOIN place ON place.id = sample.place
    JOIN module ON module.id = place.module
    LEFT JOIN function ON function.id = place.function;
";

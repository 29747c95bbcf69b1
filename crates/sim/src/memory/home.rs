//! Beyond a package's caches: the home of a line, its memory, and other packages that may have it.

use super::{
    coherence::{Keep, OwnerFound},
    link::Load,
    pages,
    system::MemorySystem,
};
use crate::{access::Supplier, signal::BoxSignal};

/// Regions of memory told apart by [`Visits`].
const REGIONS: usize = 1 << 18;

/// Which packages ever asked for a line of a region: those that did not need no search. Regions of a page's size share
/// an entry now and then, which costs a search and nothing else.
#[derive(Clone, Debug)]
pub(super) struct Visits {
    packages: Vec<u8>,
}

impl Visits {
    pub fn new() -> Self {
        Self { packages: vec![0; REGIONS] }
    }

    fn region(line: u64) -> usize {
        pages::mix(line / pages::SMALL_LINES) as usize % REGIONS
    }

    /// Notes that a package asks; one bit for each other that did.
    pub fn note(&mut self, line: u64, package: usize) -> u8 {
        let packages = &mut self.packages[Self::region(line)];
        *packages |= 1 << package;
        *packages & !(1 << package)
    }

    /// One bit per package.
    pub fn may_hold(&self, line: u64) -> u8 {
        self.packages[Self::region(line)]
    }
}

/// A line that came from outside the package.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromHome {
    /// When it is here.
    pub at: u64,
    /// Other packages keep a copy.
    pub shared: bool,
    /// It differs from memory.
    pub modified: bool,
    pub supplier: Supplier,
}

/// What other packages had of a line.
struct OthersFound {
    /// Some keep a copy.
    shared: bool,
    /// When all have answered.
    confirmed: u64,
    /// Who had it modified, and the moment from which it can be sent for.
    owner: Option<(usize, u64)>,
    /// The same of the first that had it unmodified.
    clean: Option<(usize, u64)>,
}

impl MemorySystem {
    /// Asks the home of a line, for package `socket`, which has no copy. With `store`, others lose theirs.
    pub(super) fn ask_home(
        &mut self,
        socket: usize,
        line: u64,
        at: u64,
        store: bool,
        prefetch: bool,
    ) -> FromHome {
        let home = pages::home(line);
        let others = self.visits.note(line, socket);
        if home == socket && others == 0 {
            self.tell_home(home, BoxSignal::HomeReadsLocal, at);
            self.tell_home(home, BoxSignal::DirectoryNoSnoops, at);
            let at = self.read_home(home, line, at, prefetch);
            return FromHome { at, shared: false, modified: false, supplier: Supplier::LocalMemory };
        }
        self.ask_home_and_others(socket, line, at, store, prefetch)
    }

    #[inline(always)]
    fn read_home(&mut self, home: usize, line: u64, at: u64, prefetch: bool) -> u64 {
        let memory = &mut self.sockets[home].memory;
        let read = memory.read(line, at);
        memory.stats.reads_prefetch += u64::from(prefetch);
        self.tell_channel(home, line, BoxSignal::ChannelReads, at);
        read
    }

    /// Where the home is another package, or others may have the line.
    #[inline(never)]
    fn ask_home_and_others(
        &mut self,
        socket: usize,
        line: u64,
        at: u64,
        store: bool,
        prefetch: bool,
    ) -> FromHome {
        let home = pages::home(line);
        let (slot, left) = match home == socket {
            true => (None, at),
            false => {
                let (slot, left) = self.links.requests[socket].acquire(at);
                (Some(slot), left)
            }
        };
        let asked = self.send(socket, home, line, Load::Message, left);
        let local = home == socket;
        let asks = if local { BoxSignal::HomeReadsLocal } else { BoxSignal::HomeReadsRemote };
        self.tell_home(home, asks, asked);
        let OthersFound { shared, confirmed, owner, clean } = self.ask_others(socket, line, asked, store);
        let snooped = confirmed > asked || owner.is_some();
        let said = if snooped { BoxSignal::DirectorySnoops } else { BoxSignal::DirectoryNoSnoops };
        self.tell_home(home, said, asked);
        let from = match owner {
            Some((owner, looked)) => self.fetch_from_cache(socket, owner, line, looked, store),
            None if let Some((holder, looked)) = clean.filter(|_| self.forwards_clean) => {
                // Memory is read at the same time; what it gives comes too late to be used.
                self.read_home(home, line, asked, prefetch);
                self.forward_clean(socket, holder, line, looked, store)
            }
            None => {
                let read = self.read_home(home, line, asked, prefetch);
                self.sockets[home].memory.stats.reads_remote += u64::from(home != socket);
                let supplier = if local { Supplier::LocalMemory } else { Supplier::RemoteMemory };
                let at = self.send(home, socket, line, Load::Line, read);
                FromHome { at, shared, modified: false, supplier }
            }
        };
        if let Some(slot) = slot {
            self.links.requests[socket].hold(slot, from.at);
        }
        FromHome { at: from.at.max(confirmed), shared: shared || from.shared, ..from }
    }

    /// Snoops the other packages that have copies.
    fn ask_others(&mut self, socket: usize, line: u64, asked: u64, store: bool) -> OthersFound {
        let home = pages::home(line);
        let keep = if store { Keep::Nothing } else { Keep::Shared };
        let mut others_found = OthersFound { shared: false, confirmed: asked, owner: None, clean: None };
        let mut others = self.visits.may_hold(line) & !(1 << socket);
        while others != 0 {
            let other = others.trailing_zeros() as usize;
            others &= others - 1;
            let (found, looked) = self.snoop_package(other, line, keep, Some(asked));
            match found {
                OwnerFound::Nothing => continue,
                OwnerFound::Modified => others_found.owner = Some((other, looked)),
                OwnerFound::Clean => {
                    others_found.clean.get_or_insert((other, looked));
                    let told = self.send(home, other, line, Load::Message, asked);
                    let answered = self.send(other, socket, line, Load::Message, told);
                    others_found.confirmed = others_found.confirmed.max(answered);
                }
            }
            others_found.shared |= !store;
        }
        others_found
    }

    /// An unmodified line comes from another package's caches.
    fn forward_clean(
        &mut self,
        socket: usize,
        holder: usize,
        line: u64,
        asked: u64,
        store: bool,
    ) -> FromHome {
        let told = self.send(pages::home(line), holder, line, Load::Message, asked);
        let looked_up = self.sockets[holder].l3.as_ref().map_or(0, |l3| l3.latency_fs);
        let at = self.send(holder, socket, line, Load::Line, told + looked_up);
        FromHome { at, shared: !store, modified: false, supplier: Supplier::RemoteCacheClean }
    }

    /// A modified line comes from another package's caches; if it is only read, memory gets it too.
    fn fetch_from_cache(
        &mut self,
        socket: usize,
        owner: usize,
        line: u64,
        asked: u64,
        store: bool,
    ) -> FromHome {
        let home = pages::home(line);
        let told = self.send(home, owner, line, Load::Message, asked);
        let looked_up = self.sockets[owner].l3.as_ref().map_or(0, |l3| l3.latency_fs + l3.snoop_fs);
        let found = told + looked_up;
        if !store {
            self.write_home(owner, line, found);
        }
        let at = self.send(owner, socket, line, Load::Line, found);
        FromHome { at, shared: !store, modified: store, supplier: Supplier::RemoteCacheModified }
    }

    /// Takes the copies of all other packages away from a line that `socket` holds; returns when that is done.
    pub(super) fn own_everywhere(&mut self, socket: usize, line: u64, at: u64) -> u64 {
        let home = pages::home(line);
        let asked = self.send(socket, home, line, Load::Message, at);
        let confirmed = self.ask_others(socket, line, asked, true).confirmed;
        // The home's answer, where nobody else had to be asked.
        if confirmed == asked { self.send(home, socket, line, Load::Message, asked) } else { confirmed }
    }

    /// Writes a line to its home from package `socket`; returns when the memory's queue has it.
    pub(super) fn write_home(&mut self, socket: usize, line: u64, at: u64) -> u64 {
        let home = pages::home(line);
        if home == socket {
            self.tell_home(home, BoxSignal::HomeWritesLocal, at);
            self.tell_channel(home, line, BoxSignal::ChannelWrites, at);
            return self.sockets[home].memory.write(line, at);
        }
        let (slot, left) = self.links.requests[socket].acquire(at);
        let arrived = self.send(socket, home, line, Load::Line, left);
        let memory = &mut self.sockets[home].memory;
        let accepted = memory.write(line, arrived);
        memory.stats.writes_remote += 1;
        self.tell_home(home, BoxSignal::HomeWritesRemote, arrived);
        self.tell_channel(home, line, BoxSignal::ChannelWrites, accepted);
        let told = self.send(home, socket, line, Load::Message, accepted);
        self.links.requests[socket].hold(slot, told);
        told
    }
}

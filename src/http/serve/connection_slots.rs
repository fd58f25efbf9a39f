//! Connection slots: `server.max_connections` regular ones, and a small reserve that keeps probes
//! working.
//!
//! If every slot is taken, the connection that has been idle longest is closed for the new one.
//! Idle means that no request is in progress: nothing was sent yet, an incomplete head, or nothing
//! since the last response. One peer gets a part of the slots; a peer that has used it up gives one
//! of its own idle connections for the new one. If no connection is idle, the new one gets a
//! reserved slot, which serves only `/health/…` unless a regular slot is free by the time its
//! request arrives. A request that is refused then releases its reserved slot at once, so that slow
//! clients cannot fill the reserve.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::base::metrics as names;
use crate::config::Server;
use crate::http::admission::{Admission, Refusal};

/// Connections above the limit, for probes.
const RESERVE: usize = 64;

/// A connection is evicted only after this long without a request: a newly opened one is about to
/// send its own.
const SETTLED: Duration = Duration::from_millis(500);

/// A connection in a reserved slot is evicted earlier: a probe sends its request at once, and another
/// one may need the slot.
const SETTLED_IN_RESERVE: Duration = Duration::from_millis(100);

pub struct ConnectionSlots {
    main: Limits,
    reserve: Limits,
    inner: Mutex<Inner>,
}

/// The limits of one kind of slots.
#[derive(Clone, Copy)]
struct Limits {
    most: usize,
    /// 0 means no limit.
    per_peer: usize,
    /// How long a connection has to be idle before it may be evicted.
    settled: Duration,
}

#[derive(Default)]
struct Inner {
    last_id: u64,
    slots: HashMap<u64, State>,
    main: Row,
    reserve: Row,
}

/// The slots of one kind.
#[derive(Default)]
struct Row {
    taken: usize,
    /// Connections without a request, the one idle longest first.
    idle: BTreeSet<(Instant, u64)>,
    of_peer: HashMap<IpAddr, usize>,
}

struct State {
    peer: IpAddr,
    reserved: bool,
    idle_since: Option<Instant>,
    signals: Signals,
}

/// The signals between a connection and the list of slots.
#[derive(Clone, Default)]
pub struct Signals {
    /// Set when the connection has to close.
    pub leave: CancellationToken,
    /// Whether part of a response waits for the client to read it; such a connection is not idle.
    pub unread: Arc<AtomicBool>,
}

/// The slot of a connection, released when dropped.
pub struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    pub signals: Signals,
    busy: AtomicBool,
}

/// Whose connections count together: an IPv4 address, or an IPv6 network of 64 bits, because one
/// machine has all addresses of such a network.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(network).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// A request in progress; over when dropped.
pub struct Turn {
    slot: Arc<ConnectionSlot>,
    pub admission: Admission,
}

impl ConnectionSlots {
    pub fn new(config: &Server) -> Arc<Self> {
        let number = |setting: u64| usize::try_from(setting).unwrap_or(usize::MAX);
        let per_peer = number(config.max_connections_per_peer());
        Arc::new(Self {
            main: Limits {
                most: number(config.max_connections),
                per_peer,
                settled: SETTLED,
            },
            reserve: Limits {
                most: RESERVE,
                per_peer: if per_peer == 0 { 0 } else { RESERVE / 2 },
                settled: SETTLED_IN_RESERVE,
            },
            inner: Mutex::default(),
        })
    }

    /// A slot for a new connection.
    pub fn slot(self: &Arc<Self>, address: IpAddr) -> Result<Arc<ConnectionSlot>, Refusal> {
        let peer = peer_of(address);
        let now = Instant::now();
        let mut inner = self.lock();

        let reserved = match self.make_room(&mut inner, false, peer, now) {
            Ok(()) => false,
            Err(_) if self.make_room(&mut inner, true, peer, now).is_ok() => true,
            Err(refusal) => return Err(refusal),
        };

        inner.last_id += 1;
        let (id, signals) = (inner.last_id, Signals::default());
        let row = inner.row(reserved);
        row.count_in(peer);
        row.idle.insert((now, id));
        inner.slots.insert(
            id,
            State {
                peer,
                reserved,
                idle_since: Some(now),
                signals: signals.clone(),
            },
        );

        Ok(Arc::new(ConnectionSlot {
            slots: Arc::clone(self),
            id,
            signals,
            busy: AtomicBool::new(false),
        }))
    }

    /// Makes room for one more connection of this peer.
    fn make_room(
        &self,
        inner: &mut Inner,
        reserved: bool,
        peer: IpAddr,
        now: Instant,
    ) -> Result<(), Refusal> {
        let limits = if reserved { self.reserve } else { self.main };
        let latest = now.checked_sub(limits.settled);
        let of_peer = inner.row(reserved).of_peer.get(&peer).copied().unwrap_or(0);
        let too_many = limits.per_peer > 0 && of_peer >= limits.per_peer;
        if too_many && !inner.evict(reserved, Some(peer), latest) {
            return Err(Refusal::Peer {
                most: limits.per_peer,
            });
        }

        if inner.row(reserved).taken >= limits.most && !inner.evict(reserved, None, latest) {
            return Err(Refusal::Full { most: limits.most });
        }

        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn row(&mut self, reserved: bool) -> &mut Row {
        if reserved {
            &mut self.reserve
        } else {
            &mut self.main
        }
    }

    /// Evicts the connection that has been idle longest, and since `latest` at least, of this peer
    /// if given; returns whether there was one.
    fn evict(&mut self, reserved: bool, of: Option<IpAddr>, latest: Option<Instant>) -> bool {
        let row = if reserved { &self.reserve } else { &self.main };
        let fits = |slot: &State| {
            of.is_none_or(|peer| slot.peer == peer) && !slot.signals.unread.load(Ordering::Relaxed)
        };

        let settled = row
            .idle
            .iter()
            .take_while(|(since, _)| latest.is_some_and(|latest| *since <= latest));

        let found = settled
            .map(|(_, id)| *id)
            .find(|id| self.slots.get(id).is_some_and(fits));
        let Some(id) = found else { return false };

        if let Some(slot) = self.remove(id) {
            slot.signals.leave.cancel();
            metrics::counter!(names::HTTP_CONNECTIONS_EVICTED_TOTAL).increment(1);
        }

        true
    }

    fn remove(&mut self, id: u64) -> Option<State> {
        let slot = self.slots.remove(&id)?;
        if let Some(since) = slot.idle_since {
            self.row(slot.reserved).idle.remove(&(since, id));
        }

        self.row(slot.reserved).count_out(slot.peer);
        Some(slot)
    }
}

impl Row {
    fn count_in(&mut self, peer: IpAddr) {
        self.taken += 1;
        *self.of_peer.entry(peer).or_default() += 1;
    }

    fn count_out(&mut self, peer: IpAddr) {
        self.taken -= 1;
        if let Some(count) = self.of_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.of_peer.remove(&peer);
            }
        }
    }
}

impl ConnectionSlot {
    /// A request has arrived: a health probe, or another one.
    pub fn begin(self: &Arc<Self>, is_probe: bool) -> Turn {
        self.busy.store(true, Ordering::Relaxed);
        Turn {
            slot: Arc::clone(self),
            admission: self.admit(is_probe),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    fn admit(&self, is_probe: bool) -> Admission {
        let mut inner = self.slots.lock();
        // A request that arrives at the moment of eviction is still answered.
        let Some(slot) = inner.slots.get_mut(&self.id) else {
            return Admission::All;
        };
        let (peer, reserved, idle_since) = (slot.peer, slot.reserved, slot.idle_since.take());
        if let Some(since) = idle_since {
            inner.row(reserved).idle.remove(&(since, self.id));
        }

        if !reserved {
            return Admission::All;
        }

        let now = Instant::now();
        if let Err(refusal) = self.slots.make_room(&mut inner, false, peer, now) {
            if !is_probe {
                inner.remove(self.id);
            }

            return Admission::ProbesOnly(refusal);
        }

        inner.reserve.count_out(peer);
        inner.main.count_in(peer);
        if let Some(slot) = inner.slots.get_mut(&self.id) {
            slot.reserved = false;
        }

        Admission::All
    }

    fn end(&self) {
        self.busy.store(false, Ordering::Relaxed);
        let now = Instant::now();
        let mut inner = self.slots.lock();
        let Some(slot) = inner.slots.get_mut(&self.id) else {
            return;
        };
        slot.idle_since = Some(now);
        let reserved = slot.reserved;

        inner.row(reserved).idle.insert((now, self.id));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.slot.end();
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_an_address_or_a_network_of_ipv6() {
        let peer = |text: &str| peer_of(text.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:0:0:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("::ffff:10.0.0.1"), peer("::ffff:10.0.0.2"));
        assert_ne!(peer("127.0.0.1"), peer("127.0.0.2"));
    }
}

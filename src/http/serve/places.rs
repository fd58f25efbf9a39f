//! Connection slots: `server.max_connections` regular ones, and a small reserve that keeps probes
//! working.
//!
//! If every slot is taken, the connection that has been idle longest is closed for the new one.
//! Idle means that no request is in progress: nothing was sent yet, an incomplete head, or nothing
//! since the last response. If no connection is idle, the new one gets a reserved slot, which
//! serves only `/health/…` unless a regular slot is free by the time its request arrives.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::base::metrics as names;
use crate::config::Server;
use crate::http::admission::{Admission, Refusal};

/// Connections above the limit, for probes.
const RESERVE: usize = 16;

/// A connection is evicted only after this long without a request: a newly opened one is about to
/// send its own.
const SETTLED: Duration = Duration::from_millis(500);

pub struct Places {
    most: usize,
    /// 0 means no limit.
    most_per_address: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last_id: u64,
    seats: HashMap<u64, State>,
    main: Row,
    reserve: Row,
    /// Connections of each address in regular slots; reserved ones do not count.
    of_address: HashMap<IpAddr, usize>,
}

/// The slots of one kind.
#[derive(Default)]
struct Row {
    taken: usize,
    /// Connections without a request, the one idle longest first.
    idle: BTreeSet<(Instant, u64)>,
}

struct State {
    address: IpAddr,
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
pub struct Seat {
    places: Arc<Places>,
    id: u64,
    pub signals: Signals,
    busy: AtomicBool,
}

/// A request in progress; over when dropped.
pub struct Turn {
    seat: Arc<Seat>,
    pub admission: Admission,
}

impl Places {
    pub fn new(config: &Server) -> Arc<Self> {
        let number = |setting: u64| usize::try_from(setting).unwrap_or(usize::MAX);
        Arc::new(Self {
            most: number(config.max_connections),
            most_per_address: number(config.max_connections_per_address),
            inner: Mutex::default(),
        })
    }

    /// A slot for a new connection.
    pub fn seat(self: &Arc<Self>, address: IpAddr) -> Result<Arc<Seat>, Refusal> {
        let address = address.to_canonical();
        let now = Instant::now();
        let mut inner = self.lock();

        let reserved = match self.make_room(&mut inner, address, now) {
            Ok(()) => false,
            Err(_) if inner.reserve.taken < RESERVE || inner.evict(true, None, now) => true,
            Err(refusal) => return Err(refusal),
        };

        inner.last_id += 1;
        let (id, signals) = (inner.last_id, Signals::default());
        inner.count_in(address, reserved);
        inner.row(reserved).idle.insert((now, id));
        inner.seats.insert(
            id,
            State {
                address,
                reserved,
                idle_since: Some(now),
                signals: signals.clone(),
            },
        );

        Ok(Arc::new(Seat {
            places: Arc::clone(self),
            id,
            signals,
            busy: AtomicBool::new(false),
        }))
    }

    /// Makes room for one more connection of this address.
    fn make_room(&self, inner: &mut Inner, address: IpAddr, now: Instant) -> Result<(), Refusal> {
        let of_address = inner.of_address.get(&address).copied().unwrap_or(0);
        let too_many = self.most_per_address > 0 && of_address >= self.most_per_address;
        if too_many && !inner.evict(false, Some(address), now) {
            return Err(Refusal::Address {
                most: self.most_per_address,
            });
        }

        if inner.main.taken >= self.most && !inner.evict(false, None, now) {
            return Err(Refusal::Full { most: self.most });
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

    fn count_in(&mut self, address: IpAddr, reserved: bool) {
        self.row(reserved).taken += 1;
        if !reserved {
            *self.of_address.entry(address).or_default() += 1;
        }
    }

    fn count_out(&mut self, address: IpAddr, reserved: bool) {
        self.row(reserved).taken -= 1;
        if !reserved && let Some(count) = self.of_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&address);
            }
        }
    }

    /// Evicts the connection that has been idle longest, of this address if given; returns whether
    /// there was one.
    fn evict(&mut self, reserved: bool, of: Option<IpAddr>, now: Instant) -> bool {
        let row = if reserved { &self.reserve } else { &self.main };
        let fits = |seat: &State| {
            of.is_none_or(|address| seat.address == address)
                && !seat.signals.unread.load(Ordering::Relaxed)
        };

        let settled = row
            .idle
            .iter()
            .take_while(|(since, _)| now.saturating_duration_since(*since) >= SETTLED);

        let found = settled
            .map(|(_, id)| *id)
            .find(|id| self.seats.get(id).is_some_and(fits));
        let Some(id) = found else { return false };

        if let Some(seat) = self.remove(id) {
            seat.signals.leave.cancel();
            metrics::counter!(names::HTTP_CONNECTIONS_EVICTED_TOTAL).increment(1);
        }

        true
    }

    fn remove(&mut self, id: u64) -> Option<State> {
        let seat = self.seats.remove(&id)?;
        if let Some(since) = seat.idle_since {
            self.row(seat.reserved).idle.remove(&(since, id));
        }

        self.count_out(seat.address, seat.reserved);
        Some(seat)
    }
}

impl Seat {
    /// A request has arrived.
    pub fn begin(self: &Arc<Self>) -> Turn {
        self.busy.store(true, Ordering::Relaxed);
        Turn {
            seat: Arc::clone(self),
            admission: self.admit(),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    fn admit(&self) -> Admission {
        let mut inner = self.places.lock();
        // A request that arrives at the moment of eviction is still answered.
        let Some(seat) = inner.seats.get_mut(&self.id) else {
            return Admission::All;
        };
        let (address, reserved, idle_since) = (seat.address, seat.reserved, seat.idle_since.take());
        if let Some(since) = idle_since {
            inner.row(reserved).idle.remove(&(since, self.id));
        }

        if !reserved {
            return Admission::All;
        }

        if let Err(refusal) = self.places.make_room(&mut inner, address, Instant::now()) {
            return Admission::ProbesOnly(refusal);
        }

        inner.count_out(address, true);
        inner.count_in(address, false);
        if let Some(seat) = inner.seats.get_mut(&self.id) {
            seat.reserved = false;
        }

        Admission::All
    }

    fn end(&self) {
        self.busy.store(false, Ordering::Relaxed);
        let now = Instant::now();
        let mut inner = self.places.lock();
        let Some(seat) = inner.seats.get_mut(&self.id) else {
            return;
        };
        seat.idle_since = Some(now);
        let reserved = seat.reserved;

        inner.row(reserved).idle.insert((now, self.id));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.seat.end();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.places.lock().remove(self.id);
    }
}

//! A table whose keys cannot go stale unnoticed.
//!
//! Owns values by place. A place is used again, but its key is not: each carries the generation of
//! its place, so that a late event for a client that left never reaches the one that came after it.
//! The number of places ever made is the peak of what was held at once.

/// Names one value of one slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    place: u32,
    generation: u32,
}

impl Key {
    /// The place alone, for tables that run beside a slab.
    pub fn place(self) -> usize {
        self.place as usize
    }
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// The table.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Values held.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a value in. The caller bounds how many; 2^32 places are out of reach of any limit.
    pub fn insert(&mut self, value: T) -> Key {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                value: None,
            });
            (self.places.len() - 1) as u32
        });
        let slot = &mut self.places[place as usize];
        slot.value = Some(value);
        Key {
            place,
            generation: slot.generation,
        }
    }

    /// Gives a value back and retires its key; `None` for a stale key.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let place = self
            .places
            .get_mut(key.place())
            .filter(|place| place.generation == key.generation && place.value.is_some())?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.place);
        place.value.take()
    }

    /// The value of a key.
    pub fn of(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.place())?;
        if place.generation == key.generation {
            place.value.as_ref()
        } else {
            None
        }
    }

    /// The value of a key, to change.
    pub fn of_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.place())?;
        if place.generation == key.generation {
            place.value.as_mut()
        } else {
            None
        }
    }

    /// All values, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(place, slot)| {
            let key = Key {
                place: place as u32,
                generation: slot.generation,
            };
            slot.value.as_ref().map(|value| (key, value))
        })
    }

    /// All values, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.places
            .iter_mut()
            .enumerate()
            .filter_map(|(place, slot)| {
                let key = Key {
                    place: place as u32,
                    generation: slot.generation,
                };
                slot.value.as_mut().map(|value| (key, value))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing_in_a_reused_place() {
        let mut slab = Slab::default();
        let old = slab.insert('a');
        assert_eq!(slab.remove(old), Some('a'));
        let new = slab.insert('b');
        assert_eq!(new.place(), old.place());
        assert_eq!(slab.of(old), None);
        assert_eq!(slab.remove(old), None);
        assert_eq!(slab.of(new), Some(&'b'));
        assert_eq!(slab.len(), 1);
    }
}

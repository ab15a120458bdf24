//! Fast division by a number that is only known at run time, but does not change.

/// Division of 32-bit numbers by a constant, by multiplication: exact for every numerator (Granlund and
/// Montgomery, PLDI 1994, with a 64-bit reciprocal).
#[derive(Debug, Clone, Copy)]
pub struct Divisor {
    divisor: u32,
    reciprocal: u64,
}

impl Divisor {
    pub fn new(divisor: u64) -> Self {
        assert!((1..=1 << 31).contains(&divisor), "a divisor of 32-bit numbers");
        // Of 63 bits after the point, so that 1 itself fits.
        Self { divisor: divisor as u32, reciprocal: (1u64 << 63).div_ceil(divisor) }
    }

    #[inline]
    pub fn divide(self, number: u32) -> u32 {
        ((u128::from(self.reciprocal) * u128::from(number)) >> 63) as u32
    }

    #[inline]
    pub fn remainder(self, number: u32) -> u32 {
        number - self.divide(number) * self.divisor
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Divisor;

    proptest! {
        #[test]
        fn divides_like_the_operator(number: u32, divisor in 1u32..=1 << 31) {
            for number in [number, 0, 1, divisor - 1, divisor, divisor + 1, u32::MAX - 1, u32::MAX] {
                let by = Divisor::new(u64::from(divisor));
                prop_assert_eq!(by.divide(number), number / divisor);
                prop_assert_eq!(by.remainder(number), number % divisor);
            }
        }
    }
}

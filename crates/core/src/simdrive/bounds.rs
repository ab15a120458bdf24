//! What each number among the parameters may be. The most are beyond any drive: they keep all sums of times far below
//! the 584 years that the clock counts.

use super::params::DriveParameters;

/// A time that something takes, in us and in ms: 10 s.
const LONGEST_US: f64 = 1e7;
const LONGEST_MS: f64 = 1e4;
/// A time after which something happens, or that it lasts: an hour in ms, 30 years in s.
const HOUR_MS: f64 = 3.6e6;
const LIFE_S: f64 = 1e9;

/// The first number outside of its bounds, and what is possible.
pub(super) fn outside(p: &DriveParameters) -> Option<(&'static str, String)> {
    let all = [&operations(p)[..], &links(p), &delays(p), &faults(p), &energies(p)].concat();
    let (name, _, low, high) = all.into_iter().find(|(_, value, low, high)| !(*low..=*high).contains(value))?;
    Some((name, format!("{low} to {high} is possible")))
}

type Bound = (&'static str, f64, f64, f64);

fn operations(p: &DriveParameters) -> [Bound; 9] {
    [
        ("over_provisioning", p.over_provisioning, 0.005, 10.0),
        ("read_us", p.read_us, 1e-6, LONGEST_US),
        ("program_us", p.program_us, 1e-6, LONGEST_US),
        ("erase_ms", p.erase_ms, 1e-6, LONGEST_MS),
        ("slc_read_us", p.slc_read_us, 1e-6, LONGEST_US),
        ("slc_program_us", p.slc_program_us, 1e-6, LONGEST_US),
        ("slc_erase_ms", p.slc_erase_ms, 1e-6, LONGEST_MS),
        ("suspend_us", p.suspend_us, 0.0, LONGEST_US),
        ("rmw_us", p.rmw_us, 0.0, LONGEST_US),
    ]
}

fn links(p: &DriveParameters) -> [Bound; 9] {
    let (slowest, fastest) = (0.01, 1e12);
    // 0: no limit.
    let controller_least = if p.controller_mb_per_s == 0.0 { 0.0 } else { slowest };
    [
        ("channel_mb_per_s", p.channel_mb_per_s, slowest, fastest),
        ("controller_mb_per_s", p.controller_mb_per_s, controller_least, fastest),
        ("link_read_mb_per_s", p.link_read_mb_per_s, slowest, fastest),
        ("link_read_max_iops", p.link_read_max_iops, 0.1, fastest),
        ("link_write_mb_per_s", p.link_write_mb_per_s, slowest, fastest),
        ("link_write_max_iops", p.link_write_max_iops, 0.1, fastest),
        ("link_read_overhead_us", p.link_read_overhead_us, 0.0, LONGEST_US),
        ("link_write_overhead_us", p.link_write_overhead_us, 0.0, LONGEST_US),
        ("controller_read_overhead_us", p.controller_read_overhead_us, 0.0, LONGEST_US),
    ]
}

fn delays(p: &DriveParameters) -> [Bound; 9] {
    [
        ("controller_write_overhead_us", p.controller_write_overhead_us, 0.0, LONGEST_US),
        ("read_latency_us", p.read_latency_us, 0.0, LONGEST_US),
        ("write_latency_us", p.write_latency_us, 0.0, LONGEST_US),
        ("idle_collect_after_ms", p.idle_collect_after_ms, 0.0, HOUR_MS),
        ("slc_fold_after_ms", p.slc_fold_after_ms, 0.0, HOUR_MS),
        ("idle_collect_free_percent", p.idle_collect_free_percent, 0.0, 100.0),
        ("hot_percent", p.hot_percent, 0.0, 99.0),
        ("hot_spare_percent", p.hot_spare_percent, 0.0, 100.0),
        ("slc_dynamic_percent", p.slc_dynamic_percent, 0.0, 100.0),
    ]
}

fn faults(p: &DriveParameters) -> [Bound; 7] {
    [
        ("fault_power_loss_after_s", p.fault_power_loss_after_s, 0.0, LIFE_S),
        ("power_on_ms", p.power_on_ms, 0.0, HOUR_MS),
        ("fault_read_error_rate", p.fault_read_error_rate, 0.0, 1.0),
        ("fault_program_error_rate", p.fault_program_error_rate, 0.0, 1.0),
        ("fault_spike_rate", p.fault_spike_rate, 0.0, 1.0),
        ("fault_spike_ms", p.fault_spike_ms, 0.0, HOUR_MS),
        ("fault_dropout_after_s", p.fault_dropout_after_s, 0.0, LIFE_S),
    ]
}

fn energies(p: &DriveParameters) -> [Bound; 11] {
    // Of one operation: 1 kJ.
    let most_uj = 1e9;
    [
        ("idle_w", p.idle_w, 0.0, 1e6),
        ("read_uj", p.read_uj, 0.0, most_uj),
        ("program_uj", p.program_uj, 0.0, most_uj),
        ("erase_uj", p.erase_uj, 0.0, most_uj),
        ("command_uj", p.command_uj, 0.0, most_uj),
        ("transfer_nj_per_byte", p.transfer_nj_per_byte, 0.0, 1e6),
        ("ambient_c", p.ambient_c, -100.0, 1000.0),
        ("thermal_resistance_c_per_w", p.thermal_resistance_c_per_w, 0.0, 1e6),
        ("thermal_time_constant_s", p.thermal_time_constant_s, 0.01, 1e6),
        ("throttle_from_c", p.throttle_from_c, -100.0, 1000.0),
        ("throttle_full_c", p.throttle_full_c, 0.0, 1000.0),
    ]
}

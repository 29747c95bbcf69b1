//! Names of events as papers, makers and perf write them, made comparable.

/// Small letters, without the PMU around it and modifiers behind it, `.` for `:` between event and mask.
pub(crate) fn plain(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    // `cpu/event/u`: what stands between the strokes.
    let inner = match name.split_once('/') {
        Some((_, fields)) => fields.rsplit_once('/').map_or(fields, |(fields, _)| fields),
        None => without_modifiers(&name),
    };
    inner.replace(':', ".")
}

/// Without `:u`, `:pp` and the like.
fn without_modifiers(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((event, letters))
            if !letters.is_empty() && letters.chars().all(|one| "ukhpgsdw".contains(one)) =>
        {
            event
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_event_is_the_same_however_it_is_written() {
        for name in
            ["MEM_LOAD_RETIRED.L1_MISS", "mem_load_retired.l1_miss:u", "cpu/mem_load_retired.l1_miss/pp"]
        {
            assert_eq!(plain(name), "mem_load_retired.l1_miss", "{name}");
        }
        assert_eq!(plain("CPU_CLK_UNHALTED:THREAD_P"), "cpu_clk_unhalted.thread_p");
        assert_eq!(plain("cpu/event=0xa0,cmask=1,inv/"), "event=0xa0,cmask=1,inv");
        assert_eq!(plain("cycles:ppu"), "cycles");
    }
}

//! Whether the machine is a guest, and of whom.

use super::cpuinfo::CpuInfo;
use crate::{Source, cpuid::Cpuid, gaps::Gaps, source};

const DMI: &str = "sys/class/dmi/id";

/// The hypervisor's name; `None` if there is none, or, with a gap, if nothing tells.
///
/// On x86 the processor's own flag decides, since makers of bare machines also sell guests under the same DMI
/// names. Elsewhere firmware names are all there is.
pub(super) fn name(
    source: &Source,
    cpuid: Option<&Cpuid>,
    info: &CpuInfo,
    gaps: &mut Gaps,
) -> Option<String> {
    let named = || from_sysfs(source).or_else(|| from_device_tree(source)).or_else(|| from_dmi(source));
    let flag = cpuid.map(Cpuid::is_guest).or_else(|| info.flag("hypervisor"));
    match flag {
        Some(true) => cpuid.and_then(from_cpuid).or_else(named).or_else(|| Some("unknown".into())),
        // Guests of Xen's oldest kind have no flag.
        Some(false) => from_sysfs(source),
        None => {
            let found = named();
            if found.is_none() && !source.exists(DMI) {
                gaps.note(
                    "hypervisor",
                    "neither CPUID, /proc/cpuinfo nor firmware names tell whether one is there",
                );
            }
            found
        }
    }
}

fn from_cpuid(cpuid: &Cpuid) -> Option<String> {
    let known = |signature: &str| {
        Some(match signature {
            "KVMKVMKVM" => "KVM",
            "Linux KVM Hv" => "KVM",
            "Microsoft Hv" => "Hyper-V",
            "VMwareVMware" => "VMware",
            "XenVMMXenVMM" => "Xen",
            "TCGTCGTCGTCG" => "QEMU without acceleration",
            "bhyve bhyve" | "BHyVE BHyVE" => "bhyve",
            "VBoxVBoxVBox" => "VirtualBox",
            "ACRNACRNACRN" => "ACRN",
            "prl hyperv" | "lrpepyh  vr" => "Parallels",
            "QNXQVMBSQG" => "QNX",
            "SRESRESRESRE" => "LMHS",
            _ => return None,
        })
    };
    let signatures = cpuid.hypervisor_signatures();
    // One that poses as Hyper-V for Windows guests shows itself in the second leaf.
    let name = match signatures.iter().filter_map(|text| known(text)).collect::<Vec<_>>().as_slice() {
        ["Hyper-V", other, ..] => Some((*other).to_owned()),
        [first, ..] => Some((*first).to_owned()),
        [] => None,
    };
    name.or_else(|| signatures.into_iter().next())
}

fn from_sysfs(source: &Source) -> Option<String> {
    let name = source.value("sys/hypervisor/type", "a name", source::name).ok()?;
    Some(if name == "xen" { "Xen".into() } else { name })
}

fn from_device_tree(source: &Source) -> Option<String> {
    let text = source.attribute("proc/device-tree/hypervisor/compatible").ok()?;
    match text.split('\0').next()? {
        "linux,kvm" => Some("KVM".into()),
        "xen,xen" => Some("Xen".into()),
        other => source::name(other),
    }
}

/// Makers of virtual machines that write themselves into the firmware's tables.
fn from_dmi(source: &Source) -> Option<String> {
    let read = |file: &str| source.attribute(&format!("{DMI}/{file}")).unwrap_or_default();
    let (vendor, product) = (read("sys_vendor"), read("product_name"));
    let starts = |text: &str| vendor.starts_with(text) || product.starts_with(text);
    let known = [
        ("QEMU", "KVM or QEMU"),
        ("KVM", "KVM"),
        ("VMware", "VMware"),
        ("innotek GmbH", "VirtualBox"),
        ("VirtualBox", "VirtualBox"),
        ("Xen", "Xen"),
        ("Bochs", "Bochs"),
        ("Parallels", "Parallels"),
        ("BHYVE", "bhyve"),
        ("OpenStack", "OpenStack"),
        ("Google Compute Engine", "Google Compute Engine"),
    ];
    if let Some((_, name)) = known.into_iter().find(|(text, _)| starts(text)) {
        return Some(name.into());
    }
    match vendor.as_str() {
        "Microsoft Corporation" if product == "Virtual Machine" => Some("Hyper-V".into()),
        "Amazon EC2" if !product.ends_with(".metal") && !product.contains(".metal-") => {
            Some("Amazon EC2".into())
        }
        _ => None,
    }
}

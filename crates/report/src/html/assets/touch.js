// Names that are cut open when they are touched; a pointer that hovers shows them whole by their title.

function startTouch() {
  let byFinger = false;
  document.addEventListener("pointerdown", (event) => (byFinger = event.pointerType === "touch"), true);
  document.addEventListener(
    "click",
    (event) => {
      const name = event.target.closest?.(".clip, .bar-label");
      if (!byFinger || !name || name.classList.contains("opened")) return;
      const isCut = name.scrollHeight > name.clientHeight + 1 || name.scrollWidth > name.clientWidth + 1;
      if (!isCut) return;
      // The first touch shows the name, the second follows its link.
      name.classList.add("opened");
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );
}

// What is wrong with a report as it is drawn: each check returns the places, an empty list if there are none.
var checks = (() => {
  const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const numbers = (text) => text.match(/[\d.]+/g).map(Number);
  const seen = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());

  function behind(e) {
    for (; e; e = e.parentElement) {
      const found = numbers(getComputedStyle(e).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  }

  // Blocks of the page that lie on one another.
  function overlaps() {
    const boxes = seen("header.page > *, main > section, main > section > *, footer")
      .map((e) => [e, e.getBoundingClientRect()]).filter(([, b]) => b.width && b.height);
    const found = [];
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      if (a.contains(b) || b.contains(a)) return;
      const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (x > 1 && y > 1) found.push([a.className || a.tagName, b.className || b.tagName, x, y]);
    }));
    return found;
  }

  // Texts of a chart that stick out of it, or lie on another text of it.
  function texts() {
    const found = [];
    for (const svg of seen("svg")) {
      const frame = svg.getBoundingClientRect();
      const boxes = [...svg.querySelectorAll("text")].map((e) => [e, e.getBoundingClientRect()]);
      for (const [e, b] of boxes) if (b.left < frame.left - 2 || b.right > frame.right + 2) found.push(["out", e.textContent]);
      boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
        const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (x > 2 && y > 5) found.push(["on", a.textContent, b.textContent]);
      }));
    }
    return found;
  }

  // Texts below the contrast of WCAG 2.2, 1.4.3 (AA: 4.5 to 1).
  function contrast() {
    const found = new Map();
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walk.nextNode());) {
      const e = node.parentElement;
      if (!node.data.trim() || !e.checkVisibility() || e.matches("style, script, title, .sign")) continue;
      const style = getComputedStyle(e), drawn = e instanceof SVGElement;
      const here = ratio(numbers(drawn ? style.fill : style.color), behind(drawn ? e.ownerSVGElement : e));
      if (here < 4.5) found.set((e.className.baseVal ?? e.className) + " " + e.tagName, here);
    }
    return [...found];
  }

  // Shapes below the contrast of WCAG 2.2, 1.4.11 (3 to 1); those that hold a letter below that of texts.
  function shapes() {
    const own = (name) => {
      const e = document.body.appendChild(document.createElement("i"));
      e.style.color = `var(--${name})`;
      const found = numbers(getComputedStyle(e).color);
      e.remove();
      return found;
    };
    const wrong = [], lettered = ["bad", "late", "future", "duplicate", "malformed", "dimension", "other"];
    for (const name of [...lettered, "cause", "batch", "stream"]) {
      const least = lettered.includes(name) ? 4.5 : 3;
      if (ratio(own(name), own("card")) < least) wrong.push([name, "card", ratio(own(name), own("card"))]);
      if (least > 3 && ratio(own(name), own("agree")) < 3) wrong.push([name, "agree", ratio(own(name), own("agree"))]);
    }
    return wrong;
  }
  return { overlaps, texts, contrast, shapes };
})();

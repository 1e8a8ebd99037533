// Code as text: colours, line numbers, and only as many elements at once as are looked at.
const LANGUAGES = {
  hlo: /(\/\*.*?\*\/)|("(?:[^"\\]|\\.)*")|(%[\w.-]+)|\b((?:[suf]\d+|bf16|f8\w+|pred|c64|c128|token)\[[\d,]*\](?:\{[\d,]*\})?)|\b(ENTRY|ROOT|HloModule|metadata|calls|to_apply|kind|dimensions|condition|body)\b|((?<![\w.])-?\d[\w.]*)|(?<= )([a-z][\w-]*)(?=\()/g,
  mlir: /(\/\/.*)|("(?:[^"\\]|\\.)*")|([%@#][\w.$-]+)|((?:tensor|memref|vector)<[^>]*>+)|\b(func\.func|return|module|attributes|private|public)\b|((?<![\w.])-?\d[\w.+]*)|((?:stablehlo|chlo|sdy|mhlo)\.[\w.]+)/g,
  llvm: /(;.*)|("(?:[^"\\]|\\.)*")|([%@][\w.$-]+|[\w.$]+:(?=\s|$))|\b(i\d+|float|double|half|ptr|void)\b|(?<=^\s*|= )(define|declare|call|tail call|load|store|br|ret|add|sub|mul|[fs]?div|udiv|fadd|fsub|fmul|fneg|icmp|fcmp|select|phi|getelementptr|bitcast|trunc|[sz]ext|sitofp|uitofp|fptosi|fptoui|fptrunc|fpext|shufflevector|insertelement|extractelement|and|or|xor|shl|lshr|ashr|freeze|alloca|switch|unreachable)\b|((?<![\w.])-?\d[\w.+]*)/gm,
  assembly: /(#.*|\/\/.*)|("(?:[^"\\]|\\.)*")|(%[\w()]+|^[\w.$]+:)|(^\s+\.[\w.]+)|((?<=^\s+)[a-z][\w.]*)|(\$?-?\b(?:0x)?\d[\da-fA-F]*\b)/gm,
  spirv: /(;.*)|("(?:[^"\\]|\\.)*")|(%[\w.]+)|(?:)(?!)()|\b(Op\w+)\b|((?<![\w.%])-?\d[\w.]*)/g,
  python: /(#.*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(@[\w.]+)|\b(None|True|False|self|int|float|str|bool)\b|\b(def|return|class|import|from|as|if|elif|else|for|while|in|not|and|or|is|lambda|with|yield|raise|try|except|finally|pass|async|await|global|assert|del)\b|((?<![\w.])\d[\w.]*)/g,
};
const CLASSES = ["o", "s", "v", "y", "k", "m", "k"];
const CHUNK = 200;
const FIRST_LINES = 6000;

const escapeText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function coloured(line, language) {
  const pattern = LANGUAGES[language];
  if (!pattern || line.length > 3000) return escapeText(line);
  let out = "";
  let last = 0;
  for (const match of line.matchAll(pattern)) {
    const group = match.slice(1).findIndex((part) => part !== undefined && part !== "");
    if (group < 0) continue;
    out += `${escapeText(line.slice(last, match.index))}<span class="${CLASSES[group]}">${escapeText(match[0])}</span>`;
    last = match.index + match[0].length;
  }
  return out + escapeText(line.slice(last));
}

const languageOfFile = (file) => (file.endsWith(".py") ? "python" : file === "<program>" || file.endsWith(".mlir") ? "mlir" : "");

function lineMarkup(text, number, language, hot) {
  return `<span class="ln${hot ? " hot" : ""}" data-n="${number}">${coloured(text, language) || " "}</span>`;
}

// Fills `box` with parts of a text: [[first, last], ...] (from 0), or all of it for null.
function showText(box, lines, parts, language, hot = new Set()) {
  box.replaceChildren();
  box.scrollTop = 0;
  const wanted = parts || [[0, lines.length - 1]];
  let room = FIRST_LINES;
  wanted.forEach(([first, last], index) => {
    if (index && first !== wanted[index - 1][1] + 1) box.append(element("span", { class: "gap", "aria-hidden": "true" }, "⋯"));
    const end = Math.min(last, first + room - 1);
    for (let start = first; start <= end; start += CHUNK) {
      const stop = Math.min(end, start + CHUNK - 1);
      const chunk = element("div", { class: "chunk" });
      chunk.style.containIntrinsicSize = `auto ${(stop - start + 1) * 18}px`;
      let markup = "";
      for (let n = start; n <= stop; n += 1) markup += lineMarkup(lines[n], n + 1, language, hot.has(n));
      chunk.innerHTML = markup;
      box.append(chunk);
    }
    room -= Math.max(0, end - first + 1);
    if (end < last) {
      const more = element("button", { type: "button", class: "more" }, `${last - end} more lines`);
      more.addEventListener("click", () => {
        const rest = element("div");
        more.replaceWith(rest);
        showText(rest, lines, [[end + 1, last]], language, hot);
      });
      box.append(more);
    }
  });
}

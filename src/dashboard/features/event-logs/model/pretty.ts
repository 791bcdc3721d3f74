/** Longer records are shown as they came. */
const LONGEST = 200_000;

/** JSON with indentation; `undefined` where the text is no JSON. */
export function prettyJson(text: string): string | undefined {
  if (text.length > LONGEST) return undefined;
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return undefined;
  }
}

/** XML with one element in each line. It only adds white space between tags, so it cannot change what the record says. */
export function prettyXml(xml: string): string {
  if (xml.length > LONGEST) return xml;
  const pieces = xml.trim().match(/<[^>]*>|[^<]+/g) ?? [];
  const lines: string[] = [];
  let depth = 0;
  let isOpen = false;
  for (const piece of pieces) {
    const text = piece.startsWith('<') ? piece : piece.trim();
    if (text === '') continue;
    const last = lines.length - 1;
    if (!text.startsWith('<')) {
      if (isOpen) lines[last] += text;
      else lines.push(indent(depth) + text);
    } else if (text.startsWith('</')) {
      depth = Math.max(0, depth - 1);
      if (isOpen) lines[last] += text;
      else lines.push(indent(depth) + text);
      isOpen = false;
    } else {
      lines.push(indent(depth) + text);
      isOpen = !/^<[?!]|\/>$/.test(text);
      if (isOpen) depth++;
    }
  }
  return lines.join('\n');
}

const indent = (depth: number): string => '  '.repeat(Math.min(depth, 40));

/**
 * The first key that an object of the text has twice, as a path (`settings.name`), or `undefined`. Of two values under
 * one key JSON.parse keeps the last without a word, and what was lost may have been meant.
 * @param json  text that JSON.parse has taken: nothing else is checked here
 */
export function repeatedKey(json: string): string | undefined {
  // Innermost last. Of an object: the keys so far, and the one whose value is being read.
  const open: { keys: Set<string> | undefined; at: string | number }[] = [];
  let keyIsNext = false;
  for (let i = 0; i < json.length; i++) {
    const inner = open.at(-1);
    switch (json[i]) {
      case '{':
        open.push({ keys: new Set(), at: '' });
        keyIsNext = true;
        break;
      case '[':
        open.push({ keys: undefined, at: 0 });
        keyIsNext = false;
        break;
      case '}':
      case ']':
        open.pop();
        keyIsNext = false;
        break;
      case ',':
        if (typeof inner?.at === 'number') inner.at++;
        keyIsNext = inner?.keys !== undefined;
        break;
      case '"': {
        const end = endOfString(json, i);
        if (keyIsNext && inner?.keys !== undefined) {
          const key = JSON.parse(json.slice(i, end + 1)) as string;
          inner.at = key;
          if (inner.keys.has(key)) return open.map(({ at }) => at).join('.');
          inner.keys.add(key);
          keyIsNext = false;
        }
        i = end;
        break;
      }
      default:
    }
  }
  return undefined;
}

/** Where the string that begins at `start` has its closing quote. */
function endOfString(json: string, start: number): number {
  let i = start + 1;
  while (json[i] !== '"') i += json[i] === '\\' ? 2 : 1;
  return i;
}

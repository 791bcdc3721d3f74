/** What `JSON.parse` takes without a word and changes: it must not pass for what the sender meant. */
export interface JsonTextFault {
  /** Such as `settings.name`; empty for the whole text. */
  path: string;
  message: string;
}

/**
 * The first key that an object of the text has twice, of which `JSON.parse` keeps the last; or the first number that is
 * too large, which it makes infinite.
 * @param json  text that JSON.parse has taken: nothing else is checked here
 */
export function jsonTextFault(json: string): JsonTextFault | undefined {
  // Innermost last. Of an object: the keys so far, and the one whose value is being read.
  const open: { keys: Set<string> | undefined; at: string | number }[] = [];
  const here = () => open.map(({ at }) => at).join('.');
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
          if (inner.keys.has(key)) return { path: here(), message: 'Duplicate key.' };
          inner.keys.add(key);
          keyIsNext = false;
        }
        i = end;
        break;
      }
      default: {
        const end = endOfNumber(json, i);
        if (end > i + 1 && !Number.isFinite(Number(json.slice(i, end)))) {
          return { path: here(), message: 'must be a number within ±1.8e308' };
        }
        i = Math.max(i, end - 1);
      }
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

/** Behind the number that begins at `start`; `start` itself where none does. */
function endOfNumber(json: string, start: number): number {
  NUMBER.lastIndex = start;
  return NUMBER.test(json) ? NUMBER.lastIndex : start;
}
const NUMBER = /-?\d[\d.eE+-]*/y;

/** What a person types at a local terminal that is not for the device, as with `ssh`. Pure. */

export interface Typed {
  /** For the device. */
  text: string;
  /** What was asked of this program, after the text. Whatever was typed after `leave` is dropped. */
  asked?: 'leave' | 'help';
}

export const ESCAPES_HELP =
  '~. leaves and ends the terminal, ~~ sends one ~, ~? shows this. Only at the start of a line.';

/**
 * Reads what is typed. At the start of a line, `~` waits for the next character.
 * @returns a function that takes pieces of input in their order
 */
export function createEscapes(): (input: string) => Typed[] {
  let isAtStart = true;
  let isWaiting = false;
  return (input) => {
    const found: Typed[] = [];
    let text = '';
    for (const character of input) {
      if (isWaiting) {
        isWaiting = false;
        if (character === '.') return [...found, { text, asked: 'leave' }];
        if (character === '?') {
          found.push({ text, asked: 'help' });
          text = '';
          // The line of the device is as empty as before.
          continue;
        }
        // Only `~~` is one character; any other was meant for the device.
        text += character === '~' ? '~' : `~${character}`;
        isAtStart = ENDS.has(character);
        continue;
      }
      if (character === '~' && isAtStart) {
        isWaiting = true;
        continue;
      }
      text += character;
      isAtStart = ENDS.has(character);
    }
    return text === '' ? found : [...found, { text }];
  };
}

/** After these a new line begins, also in a shell that has just thrown a line away (Ctrl+C, Ctrl+U) or ended (Ctrl+D). */
const ENDS: ReadonlySet<string> = new Set(['\r', '\n', '\u0003', '\u0004', '\u0015']);

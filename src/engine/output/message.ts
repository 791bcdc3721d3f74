import { z } from 'zod';
import { escapeLiteral } from '../../protocol/index.ts';
import { errorNumberText } from './error-numbers.ts';

/** The JSON lines on restic's error output: `error` for one file, and `exit_error` at the end since 0.18. */

const ExitError = z.object({ message_type: z.literal('exit_error'), message: z.string() });
const ItemError = z.object({
  message_type: z.literal('error'),
  item: z.string().optional(),
  message: z.string().optional(),
  error: z
    .object({ message: z.string().optional(), Err: z.union([z.number(), z.string()]).optional() })
    .nullish(),
});

export type ErrorMessage =
  | { type: 'exit_error'; text: string }
  /** `text` is empty before 0.17.1, which prints the error as an object without its text. */
  | { type: 'error'; item: string; text: string };

export function parseMessage(line: string): ErrorMessage | undefined {
  const value = parseJson(line);
  const end = ExitError.safeParse(value);
  if (end.success) return { type: 'exit_error', text: end.data.message };
  const item = ItemError.safeParse(value);
  if (!item.success) return undefined;
  const { error, message } = item.data;
  const text = error?.message ?? message ?? reasonOf(error?.Err);
  return { type: 'error', item: printedAsPath(item.data.item ?? ''), text };
}

/** `undefined` for what is not a JSON object. */
export function parseJson(line: string): unknown {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

/** Paths of Windows, where a backslash separates names, stay as they are. */
const printedAsPath = (item: string) => (process.platform === 'win32' ? item : escapeLiteral(item));

/** Empty where restic says nothing. */
const reasonOf = (number: number | string | undefined): string =>
  typeof number === 'number' ? errorNumberText(number) : (number ?? '');

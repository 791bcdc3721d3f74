import type { CommandIo } from '../io.ts';
import { askSecret, secretFrom } from '../secret-input.ts';

export interface PassphraseOptions {
  passphraseFile?: string;
  passphraseStdin?: true;
}

/** `undefined` where none was given and there is no terminal to ask on. */
export async function passphraseOf(
  io: CommandIo,
  { passphraseFile: file, passphraseStdin }: PassphraseOptions,
  { repeat }: { repeat: boolean },
): Promise<string | undefined> {
  if (file !== undefined && passphraseStdin === true) {
    throw new Error('Give the passphrase by a file or by the standard input, not by both.');
  }
  if (file !== undefined) return secretFrom(io, { file });
  if (passphraseStdin === true) return secretFrom(io, 'stdin');
  const given = await askSecret(io, 'Passphrase of the backup: ');
  if (!repeat || given === undefined) return given;
  if ((await askSecret(io, 'The same passphrase again: ')) !== given) {
    throw new Error('The two passphrases differ.');
  }
  return given;
}

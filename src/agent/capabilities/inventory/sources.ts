import { firmwareValue, type Hardware } from '../../../protocol/index.ts';
import type { Reading } from '../../core/plain-text.ts';
import type { Sources } from '../../os/machine-sources.ts';

/** Facts about a system that Node cannot read on every platform. */
interface Collected {
  hardware: Hardware;
  /** The interface of the default route. */
  primaryInterface: string | undefined;
  lastUser: string | undefined;
  software: FoundSoftware[] | undefined;
}

export interface FoundSoftware {
  name: string;
  version?: string | undefined;
  publisher?: string | undefined;
  /** The package manager or list that contains it. */
  source?: string | undefined;
  /** In ms since 1970. */
  installedAt?: number | undefined;
}

/**
 * Reads each source by itself; those that fail are noted in `reading`.
 * @param options.software  false for the facts of an enrollment, which must not take long
 */
export type Collector = (
  sources: Sources,
  options: { software: boolean; reading?: Reading },
) => Promise<Collected>;

/** A value that firmware reports, or `undefined` if it is a placeholder. */
export function cleanDmi(text: string | null | undefined): string | undefined {
  return nonEmpty(firmwareValue(text));
}

/** The trimmed text, or `undefined` if it is empty or a mark for an empty value. */
export function nonEmpty(text: string | null | undefined): string | undefined {
  const trimmed = text?.trim() ?? '';
  return trimmed === '' || trimmed === '-' || trimmed === '(none)' ? undefined : trimmed;
}

/** The user of the newest session in the output of `last`. */
export function lastUserOf(output: string): string | undefined {
  const name = /^(?!reboot\b|shutdown\b|runlevel\b|wtmp\b|btmp\b|_mbsetupuser\b)(\S+) +\S/m.exec(output)?.[1];
  return nonEmpty(name);
}

import type { Hardware } from '../../../protocol/index.ts';
import type { Sources } from './sources.ts';

/** What a system reports about itself beyond what Node can read on every system. */
export interface Collected {
  hardware: Hardware;
  /** The name of the interface of the default route. */
  primaryInterface: string | undefined;
  lastUser: string | undefined;
  software: FoundSoftware[] | undefined;
}

export interface FoundSoftware {
  name: string;
  version?: string | undefined;
  publisher?: string | undefined;
  /** In ms since 1970. */
  installedAt?: number | undefined;
}

/** @param options.software  false for the facts of an enrollment, which must not take long */
export type Collector = (sources: Sources, options: { software: boolean }) => Promise<Collected>;

/** Placeholders that firmware reports where its maker has entered nothing. */
const BLANK =
  /^(0+|1?23456789|n\/?a|none|unknown|default string|not (applicable|available|specified|present)|invalid|oem|o\.e\.m\.|to be filled by o\.e\.m\.?|system (manufacturer|product name|serial number|version)|(base|chassis) .*serial number|type1.*|undefined|-+|\.+|x+)$/i;

/** A value that firmware reports, or `undefined` where it is a placeholder. */
export function cleanDmi(text: string | null | undefined): string | undefined {
  const value = nonEmpty(text?.replaceAll('\0', ''));
  return value === undefined || BLANK.test(value) ? undefined : value;
}

/** The trimmed text, or `undefined` where it is empty or a mark for an empty value. */
export function nonEmpty(text: string | null | undefined): string | undefined {
  const trimmed = text?.trim() ?? '';
  return trimmed === '' || trimmed === '-' || trimmed === '(none)' ? undefined : trimmed;
}

/** The user of the newest session in the output of `last`. */
export function lastUserOf(output: string): string | undefined {
  const name = /^(?!reboot\b|shutdown\b|runlevel\b|wtmp\b|btmp\b|_mbsetupuser\b)(\S+) +\S/m.exec(output)?.[1];
  return nonEmpty(name);
}

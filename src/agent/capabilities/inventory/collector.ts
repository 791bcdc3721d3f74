import type { Hardware } from '../../../protocol/index.ts';
import type { Sources } from './sources.ts';

/** What a system tells of itself beyond what Node knows of every system. */
export interface Found {
  hardware: Hardware;
  /** The name of the interface by which the rest of the world is reached. */
  primaryInterface: string | undefined;
  lastUser: string | undefined;
  software: FoundSoftware[] | undefined;
}

export interface FoundSoftware {
  name: string;
  version?: string | undefined;
  publisher?: string | undefined;
  /** In ms. */
  installedAt?: number | undefined;
}

/** @param options.software  false where only the machine is asked about, for which nobody should have to wait */
export type Look = (sources: Sources, options: { software: boolean }) => Promise<Found>;

/** What firmware says where its maker has left it blank. */
const BLANK =
  /^(0+|1?23456789|n\/?a|none|unknown|default string|not (applicable|available|specified|present)|invalid|oem|o\.e\.m\.|to be filled by o\.e\.m\.?|system (manufacturer|product name|serial number|version)|(base|chassis) .*serial number|type1.*|undefined|-+|\.+|x+)$/i;

/** `undefined` where firmware says nothing. */
export function said(text: string | null | undefined): string | undefined {
  const told = filled(text?.replaceAll('\0', ''));
  return told === undefined || BLANK.test(told) ? undefined : told;
}

/** `undefined` where nothing stands, or a mark for it. */
export function filled(text: string | null | undefined): string | undefined {
  const trimmed = text?.trim() ?? '';
  return trimmed === '' || trimmed === '-' || trimmed === '(none)' ? undefined : trimmed;
}

/** The newest session in the output of `last`, whoever that was. */
export function lastUserOf(output: string): string | undefined {
  const name = /^(?!reboot\b|shutdown\b|runlevel\b|wtmp\b|btmp\b|_mbsetupuser\b)(\S+) +\S/m.exec(output)?.[1];
  return filled(name);
}

import { clock } from '../../../clock.ts';
import { lastOperatorEntry } from '../../../features/audit/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Check, ok, warning } from '../check.ts';

const DAY_MS = 86_400_000;
const WARNS_DAYS = 7;

/** When `muster backup` last ran. Other means of a backup are not known here. */
export const backupCheck = (db: Db): Check => ({
  name: 'last backup',
  async run() {
    const fix = 'Run `muster backup` every day, and keep its file on another machine.';
    const at = await lastOperatorEntry(db, 'installation.backup');
    if (at === undefined) return warning('`muster backup` has never written one.', fix);
    const days = Math.floor((clock.now() - at.getTime()) / DAY_MS);
    const message = `The last backup of this installation was written at ${at.toISOString()}.`;
    return days >= WARNS_DAYS ? warning(message, fix) : ok(message);
  },
});

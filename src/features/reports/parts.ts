import { upgradeReport } from '../agent-upgrades/index.ts';
import { alertReport } from '../alerts/index.ts';
import { peopleReport } from '../audit/index.ts';
import { backupReport } from '../backup/index.ts';
import { cloudBackupReport } from '../cloud-backup/index.ts';
import { commandReport } from '../commands/index.ts';
import { deviceReport } from '../devices/index.ts';
import { softwareReport } from '../inventory/index.ts';
import { availabilityReport } from '../metrics/index.ts';

/** The parts of a report in their order, each from the feature that owns its tables. No feature imports this one. */
export const PARTS = {
  devices: deviceReport,
  availability: availabilityReport,
  alerts: alertReport,
  backups: backupReport,
  cloudBackups: cloudBackupReport,
  software: softwareReport,
  upgrades: upgradeReport,
  commands: commandReport,
  people: peopleReport,
} as const;

export type PartName = keyof typeof PARTS;

export const PART_NAMES = [
  'devices',
  'availability',
  'alerts',
  'backups',
  'cloudBackups',
  'software',
  'upgrades',
  'commands',
  'people',
] as const satisfies readonly PartName[];

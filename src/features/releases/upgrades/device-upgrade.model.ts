import { BaseModel } from '../../../platform/db/base-model.ts';
import type { PinnedComponent } from '../targets/target.schema.ts';
import type { AttemptState } from './upgrade.schema.ts';

/** One attempt of a device to install a release, or the request of a person for one. */
export class DeviceUpgrade extends BaseModel {
  static override tableName = 'device_upgrades';
  declare orgId: string;
  declare deviceId: string;
  declare component: PinnedComponent;
  /** As the device names the attempt; the id of the row where it does not. */
  declare attemptId: string;
  declare fromVersion: string | null;
  declare targetVersion: string;
  declare state: AttemptState;
  declare code: string | null;
  declare error: string | null;
  declare rolloutId: string | null;
  declare byHand: boolean;
  /** How many attempts of the device at this version have failed in a row, this one included. */
  declare failures: number;
  /** The version is not offered again before this time. */
  declare retryAt: Date | null;
  declare startedAt: Date;
  declare finishedAt: Date | null;
}

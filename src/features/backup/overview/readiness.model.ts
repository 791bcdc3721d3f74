import { BaseModel } from '../../../platform/db/base-model.ts';
import type { Risk } from '../core/readiness.ts';

/** How surely a device can be restored, as it was last computed. */
export class DeviceReadiness extends BaseModel {
  static override tableName = 'backup_readiness';
  static override idColumn = 'device_id';
  static override hasOwnId = false;
  static override jsonAttributes = ['risks'];
  static override hasUpdatedAt = false;
  declare deviceId: string;
  declare orgId: string;
  declare score: number;
  declare rtoMinutes: number | null;
  declare rpoMinutes: number | null;
  declare risks: Risk[];
  declare calculatedAt: Date;
}

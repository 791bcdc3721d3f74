import { BaseModel } from '../../platform/db/base-model.ts';
import type { StoredEvent as StoredEventAnswer } from './stored-logs.schema.ts';

/** An event that a device has sent in. Stored in batches by `stored-event.queries.ts`. */
export class StoredEvent extends BaseModel {
  static override tableName = 'device_event_logs';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['details'];
  declare deviceId: string;
  declare orgId: string;
  declare timestamp: Date;
  declare level: StoredEventAnswer['level'];
  declare category: StoredEventAnswer['category'];
  declare source: string;
  declare eventId: string | null;
  declare message: string;
  declare details: Record<string, unknown> | null;
}

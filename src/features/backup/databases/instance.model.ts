import { BaseModel } from '../../../platform/db/base-model.ts';
import type { DatabaseEngine, DatabaseInstance } from '../../../protocol/index.ts';

/** A database server, as its device last listed it. */
export class BackupDatabaseInstance extends BaseModel {
  static override tableName = 'backup_database_instances';
  static override jsonAttributes = ['facts'];
  declare orgId: string;
  declare deviceId: string;
  declare engine: DatabaseEngine;
  declare instance: string;
  declare facts: Omit<DatabaseInstance, 'engine' | 'instance'>;
  declare lastDiscoveredAt: Date;
}

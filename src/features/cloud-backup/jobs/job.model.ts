import { BaseModel } from '../../../platform/db/base-model.ts';

export interface RestoreTarget {
  connectionId: string;
  user: string | null;
  folder: string;
}

/** A run of a configuration, or a restore. */
export class CloudJob extends BaseModel {
  static override tableName = 'c2c_jobs';
  static override jsonAttributes = ['target'];
  declare orgId: string;
  declare configId: string;
  declare type: 'backup' | 'restore';
  declare trigger: 'manual' | 'schedule';
  declare status: 'pending' | 'running' | 'completed' | 'partial' | 'failed' | 'cancelled';
  declare target: RestoreTarget | null;
  declare workerId: string | null;
  declare phase: string | null;
  declare itemsProcessed: string;
  declare itemsNew: string;
  declare itemsUpdated: string;
  declare itemsDeleted: string;
  declare itemsFailed: string;
  declare bytesTransferred: string;
  declare partsTotal: number | null;
  declare partsDone: number;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare cancelRequestedAt: Date | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}

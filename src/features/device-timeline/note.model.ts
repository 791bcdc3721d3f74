import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import { DeviceModel } from '../devices/index.ts';
import { User } from '../users/index.ts';

/** What a person has written down about a device. */
export class DeviceNote extends BaseModel {
  static override tableName = 'device_notes';
  declare orgId: string;
  declare deviceId: string;
  declare text: string;
  declare isPinned: boolean;
  /** Null if the account was deleted. */
  declare createdBy: string | null;
  /** The name of the author at that time. */
  declare authorName: string;
  declare editedAt: Date | null;

  static override relationMappings: RelationMappings = {
    device: belongsTo(DeviceModel, 'device_notes', 'device_id'),
    author: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: User,
      join: { from: 'device_notes.created_by', to: 'users.id' },
    },
  };
}

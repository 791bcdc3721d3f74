import { BaseModel } from '../../platform/db/base-model.ts';
import type { CustomFieldType } from './custom-field.schema.ts';
import { z } from 'zod';
import { topic } from '../../platform/cluster/cluster-events.ts';

/** A custom field was redefined or deleted, so conditions may read its values as another type. */
export const CUSTOM_FIELD_CHANGED = topic(
  'custom_field_changed',
  z.object({ orgId: z.string(), key: z.string() }),
);

export class CustomField extends BaseModel {
  static override tableName = 'custom_fields';
  declare orgId: string;
  declare key: string;
  declare name: string;
  declare type: CustomFieldType;
  declare description: string | null;
  declare createdBy: string | null;
}

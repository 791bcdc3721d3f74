import { BaseModel } from '../../platform/db/base-model.ts';
import type { CustomFieldType } from './custom-field.schema.ts';

export class CustomField extends BaseModel {
  static override tableName = 'custom_fields';
  declare orgId: string;
  declare key: string;
  declare name: string;
  declare type: CustomFieldType;
  declare description: string | null;
  declare createdBy: string | null;
}

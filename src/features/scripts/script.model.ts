import { BaseModel } from '../../platform/db/base-model.ts';
import type { OsType, SavedScriptLanguage } from '../../protocol/index.ts';
import type { ScriptParameter } from './script-parameters.ts';

export class Script extends BaseModel {
  static override tableName = 'scripts';
  static override jsonAttributes = ['parameters'];
  declare orgId: string | null;
  declare partnerId: string | null;
  declare name: string;
  declare description: string | null;
  declare language: SavedScriptLanguage;
  declare content: string;
  declare osTypes: OsType[];
  declare timeoutSeconds: number;
  declare parameters: ScriptParameter[];
  declare createdBy: string | null;
  /** No column of the table: selected when a script is read to be shown or run. */
  declare fingerprint: string;
}

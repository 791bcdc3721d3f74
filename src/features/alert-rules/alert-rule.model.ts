import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { AlertSeverity } from '../alerts/index.ts';
import type { DeviceTarget } from '../device-targets/index.ts';
import { Organization } from '../organizations/index.ts';
import type { ConditionKind, RuleCondition } from './alert-rule.schema.ts';

/** On which condition an alert is raised, of an organization or of a partner for all of its organizations. */
export class AlertRule extends BaseModel {
  static override tableName = 'alert_rules';
  static override jsonAttributes = ['target', 'condition'];
  declare partnerId: string;
  /** Null if the rule belongs to the partner. */
  declare orgId: string | null;
  declare name: string;
  declare enabled: boolean;
  declare severity: AlertSeverity;
  declare target: DeviceTarget;
  declare condition: RuleCondition;
  declare conditionKind: ConditionKind;
  declare alertKind: string;
  declare autoResolve: boolean;
  declare cooldownMinutes: number;
  declare createdBy: string | null;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'alert_rules.org_id', to: 'organizations.id' },
    },
  };
}

import { DeviceStatus, OsType, Architecture } from '../../../protocol/index.ts';

/** The fields and operators of conditions, for people. `test/unit/dashboard/builder.test.ts` compares them with those of the server. */

export type Kind =
  | 'string'
  | 'enum'
  | 'number'
  | 'boolean'
  | 'datetime'
  | 'days'
  | 'uuid'
  | 'list'
  | 'uuids'
  | 'software'
  | 'noSoftware';

export interface FilterField {
  name: string;
  label: string;
  group: string;
  kind: Kind;
  options?: readonly string[];
  /** The kind of record whose ids are the values of the field. */
  names?: 'organizations' | 'sites' | 'groups';
}

const field = (
  group: string,
  name: string,
  label: string,
  kind: Kind,
  more: Pick<FilterField, 'options' | 'names'> = {},
): FilterField => ({ group, name, label, kind, ...more });

export const FIELDS: readonly FilterField[] = [
  field('Device', 'hostname', 'Host name', 'string'),
  field('Device', 'displayName', 'Display name', 'string'),
  field('Device', 'status', 'Status', 'enum', { options: DeviceStatus.options }),
  field('Device', 'tags', 'Tags', 'list'),
  field('Device', 'agentVersion', 'Agent version', 'string'),
  field('Device', 'lastSeenAt', 'Last seen', 'datetime'),
  field('Device', 'daysSinceLastSeen', 'Days since last seen', 'days'),
  field('Device', 'enrolledAt', 'Enrolled', 'datetime'),
  field('Device', 'daysSinceEnrolled', 'Days since enrolled', 'days'),
  field('Place', 'orgId', 'Organization', 'uuid', { names: 'organizations' }),
  field('Place', 'siteId', 'Site', 'uuid', { names: 'sites' }),
  field('Place', 'groupId', 'Group', 'uuids', { names: 'groups' }),
  field('System', 'osType', 'Operating system', 'enum', { options: OsType.options }),
  field('System', 'osVersion', 'System version', 'string'),
  field('System', 'osBuild', 'System build', 'string'),
  field('System', 'architecture', 'Architecture', 'enum', { options: Architecture.options }),
  field('Hardware', 'hardware.manufacturer', 'Manufacturer', 'string'),
  field('Hardware', 'hardware.model', 'Model', 'string'),
  field('Hardware', 'hardware.serialNumber', 'Serial number', 'string'),
  field('Hardware', 'hardware.cpuModel', 'Processor', 'string'),
  field('Hardware', 'hardware.cpuCores', 'Cores', 'number'),
  field('Hardware', 'hardware.ramTotalMb', 'Memory in MB', 'number'),
  field('Hardware', 'hardware.diskTotalGb', 'Disk in GB', 'number'),
  field('Hardware', 'hardware.gpuModel', 'Graphics', 'string'),
  field('Network', 'network.ipAddress', 'IP address', 'string'),
  field('Network', 'network.publicIp', 'Public IP address', 'string'),
  field('Network', 'network.macAddress', 'MAC address', 'string'),
  field('Load', 'metrics.cpuPercent', 'CPU in percent', 'number'),
  field('Load', 'metrics.ramPercent', 'Memory in percent', 'number'),
  field('Load', 'metrics.diskPercent', 'Disk in percent', 'number'),
  ...averages(),
  field('Software', 'software.installed', 'Software installed', 'software'),
  field('Software', 'software.notInstalled', 'Software not installed', 'noSoftware'),
];

/** The averages over time, such as `metrics.avg.cpuPercent.1h`. */
function averages(): FilterField[] {
  const metrics = {
    cpuPercent: 'CPU in percent',
    ramPercent: 'Memory in percent',
    diskPercent: 'Disk in percent',
    swapPercent: 'Swap in percent',
    load: 'System load',
  };
  const windows = { '1h': 'last hour', '1d': 'last day', '7d': 'last 7 days' };
  return Object.entries(metrics).flatMap(([metric, words]) =>
    Object.entries(windows).map(([window, time]) =>
      field('Averages', `metrics.avg.${metric}.${window}`, `${words}, ${time}`, 'number'),
    ),
  );
}

const EQUAL = ['equals', 'notEquals'];
const LISTED = ['in', 'notIn'];
const NULLS = ['isNull', 'isNotNull'];
const ORDERED = ['greaterThan', 'greaterThanOrEquals', 'lessThan', 'lessThanOrEquals', 'between'];

export const OPERATORS: Record<Kind, readonly string[]> = {
  string: ['contains', 'notContains', ...EQUAL, 'startsWith', 'endsWith', 'matches', ...LISTED, ...NULLS],
  enum: [...EQUAL, ...LISTED, ...NULLS],
  number: [...EQUAL, ...ORDERED, ...NULLS],
  boolean: [...EQUAL, ...NULLS],
  datetime: ['withinLast', 'notWithinLast', 'before', 'after', ...EQUAL, ...ORDERED, ...NULLS],
  days: [...ORDERED, ...EQUAL, ...NULLS],
  uuid: ['equals', 'in', ...NULLS],
  uuids: ['equals', 'in', ...NULLS],
  list: ['hasAny', 'hasAll', 'contains', 'isEmpty', 'isNotEmpty', ...NULLS],
  software: ['contains', 'notContains'],
  noSoftware: ['contains'],
};

const OPERATOR_NAMES: Record<string, string> = {
  equals: 'is',
  notEquals: 'is not',
  contains: 'contains',
  notContains: 'does not contain',
  startsWith: 'begins with',
  endsWith: 'ends with',
  matches: 'matches the pattern',
  in: 'is one of',
  notIn: 'is none of',
  isNull: 'has no value',
  isNotNull: 'has a value',
  greaterThan: 'is more than',
  greaterThanOrEquals: 'is at least',
  lessThan: 'is less than',
  lessThanOrEquals: 'is at most',
  between: 'is between',
  before: 'is before',
  after: 'is after',
  withinLast: 'is within the last',
  notWithinLast: 'is not within the last',
  hasAny: 'has any of',
  hasAll: 'has all of',
  isEmpty: 'is empty',
  isNotEmpty: 'is not empty',
};

const TIME_NAMES: Record<string, string> = {
  greaterThan: 'is later than',
  greaterThanOrEquals: 'is at or after',
  lessThan: 'is earlier than',
  lessThanOrEquals: 'is at or before',
};

export const operatorName = (operator: string, kind: Kind): string =>
  (kind === 'datetime' ? TIME_NAMES[operator] : undefined) ?? OPERATOR_NAMES[operator] ?? operator;

/** Which control asks for the value of an operator. */
export type Shape = 'none' | 'one' | 'many' | 'range' | 'ago';

export function shapeOf(operator: string): Shape {
  switch (operator) {
    case 'isNull':
    case 'isNotNull':
    case 'isEmpty':
    case 'isNotEmpty':
      return 'none';
    case 'in':
    case 'notIn':
    case 'hasAny':
    case 'hasAll':
      return 'many';
    case 'between':
      return 'range';
    case 'withinLast':
    case 'notWithinLast':
      return 'ago';
    default:
      return 'one';
  }
}

/** The value of a new condition. */
export function firstValue({ kind, options }: FilterField, operator: string): unknown {
  switch (shapeOf(operator)) {
    case 'none':
      return undefined;
    case 'many':
      return [];
    case 'ago':
      return { amount: 7, unit: 'days' };
    case 'range':
      return { from: undefined, to: undefined };
    default:
      if (kind === 'boolean') return true;
      return kind === 'enum' ? options?.[0] : undefined;
  }
}

/** Custom fields of several organizations may share a key; if their types differ, the server reads a text. */
export function customFields(
  defined: readonly { key: string; name: string; type: 'string' | 'number' | 'boolean' | 'date' | 'list' }[],
): FilterField[] {
  const fields = new Map<string, FilterField>();
  for (const { key, name, type } of defined) {
    const kind = type === 'date' ? 'datetime' : type;
    const known = fields.get(key);
    fields.set(
      key,
      field(
        'Custom',
        `custom.${key}`,
        known?.label ?? name,
        known === undefined || known.kind === kind ? kind : 'string',
      ),
    );
  }
  return [...fields.values()];
}

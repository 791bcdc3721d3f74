import type { Conditions } from './conditions.ts';

/** Filters that many people want, to begin with. */
export interface Example {
  id: string;
  name: string;
  description: string;
  conditions: Conditions;
}

export const EXAMPLES: readonly Example[] = [
  {
    id: 'unseen',
    name: 'Unseen for a week',
    description: 'Devices that have not reported for seven days, without those in maintenance.',
    conditions: {
      operator: 'AND',
      conditions: [
        { field: 'daysSinceLastSeen', operator: 'greaterThan', value: 7 },
        { field: 'status', operator: 'notEquals', value: 'maintenance' },
      ],
    },
  },
  {
    id: 'full-disks',
    name: 'Disks that fill up',
    description: 'Devices that are online and have used more than 90 % of their disk.',
    conditions: {
      operator: 'AND',
      conditions: [
        { field: 'status', operator: 'equals', value: 'online' },
        { field: 'metrics.diskPercent', operator: 'greaterThan', value: 90 },
      ],
    },
  },
  {
    id: 'weak-windows',
    name: 'Windows machines to replace',
    description: 'Windows machines with little memory, or with few cores and a slow, full machine.',
    conditions: {
      operator: 'AND',
      conditions: [
        { field: 'osType', operator: 'equals', value: 'windows' },
        {
          operator: 'OR',
          conditions: [
            { field: 'hardware.ramTotalMb', operator: 'lessThan', value: 8192 },
            {
              operator: 'AND',
              conditions: [
                { field: 'hardware.cpuCores', operator: 'lessThanOrEquals', value: 2 },
                { field: 'metrics.diskPercent', operator: 'greaterThan', value: 80 },
              ],
            },
          ],
        },
      ],
    },
  },
];

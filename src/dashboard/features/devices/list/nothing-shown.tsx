import { Anchor, Button, Group } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { DeviceSummary } from '../../../../protocol/index.ts';
import { Empty, formatCount } from '../../../ui/index.ts';
import { bestDrop, type DeviceChoice } from './match-devices.ts';

const NAMES: Record<keyof DeviceChoice, string> = {
  q: 'the search',
  status: 'the choice of the status',
  os: 'the choice of the system',
};

/** Why no device is shown, and the step that shows the most. */
export function NothingShown({
  devices,
  choice,
  textsOf,
  filterName,
  scope,
  onDrop,
  onDropAll,
}: {
  /** All devices of the subscription. */
  devices: readonly DeviceSummary[];
  choice: DeviceChoice;
  textsOf: (device: DeviceSummary) => readonly string[];
  /** Of the saved filter that the hub applies, if any. */
  filterName: string | undefined;
  scope: 'all' | 'organization' | 'site';
  onDrop: (choice: keyof DeviceChoice | 'filter' | 'scope') => void;
  onDropAll: () => void;
}) {
  if (devices.length > 0) {
    const drop = bestDrop(devices, choice, textsOf);
    return (
      <Empty
        title="No device matches"
        action={
          <Group>
            {drop !== undefined && (
              <Button onClick={() => onDrop(drop.choice)}>
                Drop {NAMES[drop.choice]}: {formatCount(drop.count)} {drop.count === 1 ? 'device' : 'devices'}
              </Button>
            )}
            <Button variant="default" onClick={onDropAll}>
              Drop all choices
            </Button>
          </Group>
        }
      >
        {drop === undefined
          ? 'No single choice is to blame: several of them exclude every device.'
          : `Most devices are removed by ${NAMES[drop.choice]}.`}
      </Empty>
    );
  }
  if (filterName !== undefined) {
    return (
      <Empty
        title="No device matches the filter"
        action={<Button onClick={() => onDrop('filter')}>Drop the filter</Button>}
      >
        {filterName} finds no device{scope === 'all' ? '' : ` in this ${scope}`}. Devices appear here as soon
        as they match.
      </Empty>
    );
  }
  if (scope !== 'all') {
    return (
      <Empty
        title={`This ${scope} has no devices`}
        action={<Button onClick={() => onDrop('scope')}>Show all organizations</Button>}
      >
        A device appears here as soon as its agent is installed with a key of this {scope}.
      </Empty>
    );
  }
  return (
    <Empty
      title="No devices yet"
      action={<Anchor renderRoot={(props) => <Link {...props} to="/" />}>To the overview</Anchor>}
    >
      A device appears here as soon as its agent is installed. The page Enrollment has one line for each
      system.
    </Empty>
  );
}

import { Anchor, Group, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { DeviceSummary } from '../../../../protocol/index.ts';
import { useNames } from '../../../directory/index.ts';
import { When } from '../../../ui/index.ts';
import { Card } from './card.tsx';

const SHOWN = 6;

/** The devices that went offline last: those that somebody may be calling about. */
export function UnreachableCard({ devices }: { devices: readonly DeviceSummary[] }) {
  const names = useNames();
  const offline = devices
    .filter(({ status }) => status === 'offline')
    .sort((a, b) => (a.presence.since < b.presence.since ? 1 : -1))
    .slice(0, SHOWN);
  return (
    <Card title="Went offline last" more={{ label: 'All devices', to: '/devices' }}>
      {offline.length === 0 ? (
        <Text size="sm" c="dimmed">
          Every device is connected.
        </Text>
      ) : (
        <Stack gap={6}>
          {offline.map((device) => (
            <Group key={device.id} gap="xs" justify="space-between" wrap="nowrap">
              <Anchor
                size="sm"
                renderRoot={(props) => (
                  <Link {...props} to="/devices/$deviceId" params={{ deviceId: device.id }} />
                )}
              >
                {device.displayName ?? device.hostname}
              </Anchor>
              <Text size="sm" truncate flex={1} c="dimmed">
                {names.organization(device.orgId)}
              </Text>
              <Text size="xs" c="dimmed">
                <When at={device.presence.since} />
              </Text>
            </Group>
          ))}
        </Stack>
      )}
    </Card>
  );
}

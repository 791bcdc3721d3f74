import { Anchor, Group, Loader, Paper, Stack, Text, Title } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { useRefreshOn } from '../../api/index.ts';
import { useNames } from '../../directory/index.ts';
import { useLiveDevices } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing/index.ts';
import { DeviceStatusBadge } from '../../ui/index.ts';

/** Shows each device that arrives while the page is open, so that nobody wonders whether the installation has worked. */
export function WaitingRoom() {
  const live = useLiveDevices(scopeQuery(useScope()));
  const names = useNames();
  const [known, setKnown] = useState<ReadonlySet<string>>();
  if (known === undefined && live.state === 'live' && live.complete) {
    setKnown(new Set(live.devices.map(({ id }) => id)));
  }
  const arrived = live.devices.filter(({ id }) => known?.has(id) === false);
  // Each has used a key.
  useRefreshOn(String(arrived.length), ['GET /enrollment-keys']);
  return (
    <Paper withBorder p="md" component="section" aria-label="Waiting room">
      <Stack gap="xs">
        <Group gap="xs">
          <Loader size="xs" aria-hidden />
          <Title order={2} size="h5">
            Waiting room
          </Title>
        </Group>
        <Stack gap={6} role="log" aria-label="Devices that have arrived">
          {arrived.length === 0 ? (
            <Text size="sm" c="dimmed">
              Run the line on a machine, and it appears here a few seconds later.
            </Text>
          ) : (
            arrived.map((device) => (
              <Group key={device.id} gap="sm">
                <DeviceStatusBadge status={device.status} />
                <Anchor
                  size="sm"
                  fw={600}
                  renderRoot={(props) => (
                    <Link {...props} to="/devices/$deviceId" params={{ deviceId: device.id }} />
                  )}
                >
                  {device.hostname}
                </Anchor>
                <Text size="sm" c="dimmed">
                  {names.organization(device.orgId)}, {names.site(device.siteId)}
                </Text>
              </Group>
            ))
          )}
        </Stack>
      </Stack>
    </Paper>
  );
}

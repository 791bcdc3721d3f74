import { Alert, Anchor, Stack, Tabs, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { apiQuery, type AgentRelease } from '../../api/index.ts';
import { useMe } from '../../session/index.ts';
import { CopyText, Loaded, SYSTEM_NAMES } from '../../ui/index.ts';

/** What a person types on a machine to have it managed. The script compares the SHA-256 of what it downloads. */
export const installLine = {
  unix: (server: string, key: string): string =>
    `curl -fsSL '${server}/install.sh?key=${encodeURIComponent(key)}' | sudo sh`,
  windows: (server: string, key: string): string =>
    `irm '${server}/install.ps1?key=${encodeURIComponent(key)}' | iex`,
};

/** One line for each system that a release is there for, with the key filled in. That of this browser is shown first. */
export function InstallLines({ enrollmentKey }: { enrollmentKey: string }) {
  const releases = useQuery(
    apiQuery('GET /agent-versions', { query: { component: 'watchdog', limit: '100' } }),
  );
  return (
    <Loaded query={releases} what="Reading releases">
      {({ data }) => {
        const systems = new Set(data.filter(({ promoted }) => promoted).map(({ os }) => os));
        return systems.size === 0 ? (
          <NoRelease enrollmentKey={enrollmentKey} />
        ) : (
          <Lines enrollmentKey={enrollmentKey} systems={systems} />
        );
      }}
    </Loaded>
  );
}

/** The key is shown once, so it is shown here too: an agent that is installed by hand can enroll with it. */
function NoRelease({ enrollmentKey }: { enrollmentKey: string }) {
  const { scope } = useMe();
  return (
    <Stack gap="xs">
      <Alert color="orange" icon={<IconAlertTriangle aria-hidden />} title="No agent can be installed yet">
        <Text size="sm">
          No release of the agent is promoted on this server, so there is no install line.{' '}
          {scope === 'system' ? (
            <>
              <Anchor inherit renderRoot={(props) => <Link {...props} to="/agents" />}>
                Register one
              </Anchor>
              ; the line is shown here then, as long as this page stays open.
            </>
          ) : (
            'Ask a system administrator of this server to register one.'
          )}
        </Text>
      </Alert>
      <Text size="sm">The key, for an agent that is installed in another way:</Text>
      <CopyText label="Enrollment key" text={enrollmentKey} />
    </Stack>
  );
}

function Lines({
  enrollmentKey,
  systems,
}: {
  enrollmentKey: string;
  systems: ReadonlySet<AgentRelease['os']>;
}) {
  const server = window.location.origin;
  const isWindows = navigator.userAgent.includes('Windows');
  const hasUnix = systems.has('linux') || systems.has('macos');
  const hasWindows = systems.has('windows');
  const unixNames = (['linux', 'macos'] as const)
    .filter((os) => systems.has(os))
    .map((os) => SYSTEM_NAMES[os]);
  return (
    <Tabs defaultValue={hasWindows && (isWindows || !hasUnix) ? 'windows' : 'unix'} keepMounted={false}>
      <Tabs.List>
        {hasUnix && <Tabs.Tab value="unix">{unixNames.join(' and ')}</Tabs.Tab>}
        {hasWindows && <Tabs.Tab value="windows">Windows</Tabs.Tab>}
      </Tabs.List>
      <Tabs.Panel value="unix" pt="sm">
        <Stack gap={4}>
          <Text size="sm">In a terminal:</Text>
          <CopyText
            label={`Installation on ${unixNames.join(' and ')}`}
            text={installLine.unix(server, enrollmentKey)}
          />
        </Stack>
      </Tabs.Panel>
      <Tabs.Panel value="windows" pt="sm">
        <Stack gap={4}>
          <Text size="sm">In PowerShell, as an administrator:</Text>
          <CopyText label="Installation on Windows" text={installLine.windows(server, enrollmentKey)} />
        </Stack>
      </Tabs.Panel>
    </Tabs>
  );
}

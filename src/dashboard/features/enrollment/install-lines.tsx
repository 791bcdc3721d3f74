import { Stack, Tabs, Text } from '@mantine/core';
import { CopyText } from '../../ui/index.ts';

/** What a person types on a machine to have it managed. The script compares the SHA-256 of what it downloads. */
export const installLine = {
  unix: (server: string, key: string): string =>
    `curl -fsSL '${server}/install.sh?key=${encodeURIComponent(key)}' | sudo sh`,
  windows: (server: string, key: string): string =>
    `irm '${server}/install.ps1?key=${encodeURIComponent(key)}' | iex`,
};

/** One line for each system, with the key filled in. The line for the system of this browser is shown first. */
export function InstallLines({ enrollmentKey }: { enrollmentKey: string }) {
  const server = window.location.origin;
  const isWindows = navigator.userAgent.includes('Windows');
  return (
    <Tabs defaultValue={isWindows ? 'windows' : 'unix'} keepMounted={false}>
      <Tabs.List>
        <Tabs.Tab value="unix">Linux and macOS</Tabs.Tab>
        <Tabs.Tab value="windows">Windows</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="unix" pt="sm">
        <Stack gap={4}>
          <Text size="sm">In a terminal:</Text>
          <CopyText label="Installation on Linux and macOS" text={installLine.unix(server, enrollmentKey)} />
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

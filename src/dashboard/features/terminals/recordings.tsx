import { Stack, Title } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useState } from 'react';
import { download, type TerminalRecording, useList } from '../../api/index.ts';
import {
  Action,
  type Column,
  DetailsDrawer,
  Failure,
  formatWord,
  List,
  Loaded,
  Loading,
  saveFile,
  useLocalAddress,
  When,
} from '../../ui/index.ts';
import { parseCast } from './cast.ts';

const Player = lazy(() => import('./player.tsx'));

const ROUTE = 'GET /devices/{id}/terminal-recordings/{recordingId}/cast';
const SHOWN = '10';
const READ_AGAIN_MS = 30_000;
/** A longer recording is not held in a browser. */
const REPLAYED_MAX = 20_000_000;

/** The terminals of a device that were opened, each with its recording. */
export function Recordings({ deviceId }: { deviceId: string }) {
  const address = useLocalAddress<{ page?: number | undefined }>({});
  const [shown, setShown] = useState<TerminalRecording>();
  const query = useList(
    'GET /devices/{id}/terminal-recordings',
    { params: { id: deviceId }, query: { page: String(address.search.page ?? 1), limit: SHOWN } },
    READ_AGAIN_MS,
  );
  const saving = useMutation({
    mutationFn: async (recordingId: string) => {
      const { blob, name } = await download(ROUTE, { params: { id: deviceId, recordingId } });
      saveFile(name ?? 'terminal.cast', blob);
    },
  });
  const columns: readonly Column<TerminalRecording>[] = [
    { header: 'Opened', cell: ({ openedAt }) => <When at={openedAt} />, width: 130, isName: true },
    { header: 'By', cell: ({ userName, userEmail }) => `${userName} (${userEmail})` },
    { header: 'Ended', cell: ({ endedAt }) => <When at={endedAt} never="Is open" />, width: 130 },
    { header: 'Why', cell: ({ endReason }) => (endReason === null ? '–' : formatWord(endReason)) },
    {
      header: 'Recording',
      align: 'right',
      cell: (recording) => (
        <>
          <Action
            inRow
            refusal={
              recording.characters > REPLAYED_MAX
                ? 'The recording is too long to be replayed here. Download it.'
                : undefined
            }
            onClick={() => setShown(recording)}
          >
            Replay
          </Action>
          <Action inRow onClick={() => saving.mutate(recording.id)}>
            Download
          </Action>
        </>
      ),
    },
  ];
  return (
    <Stack gap="xs" component="section" aria-label="Recordings">
      <Title order={2} size="h4">
        Recordings
      </Title>
      {saving.error !== null && <Failure error={saving.error} />}
      <List
        query={query}
        noun="recordings"
        label="Recordings"
        keyOf={({ id }) => id}
        address={address}
        facets={[]}
        empty={{ title: 'No terminal was opened yet', text: 'The recording of each terminal appears here.' }}
        noneFound={{ title: 'No terminal was opened yet', text: 'The recording of each appears here.' }}
        columns={columns}
      />
      <DetailsDrawer
        opened={shown}
        onClose={() => setShown(undefined)}
        title="Recording of a terminal"
        size="xl"
      >
        {(recording) => <Replayed deviceId={deviceId} recording={recording} />}
      </DetailsDrawer>
    </Stack>
  );
}

function Replayed({
  deviceId,
  recording: { id, userName },
}: {
  deviceId: string;
  recording: TerminalRecording;
}) {
  const query = useQuery({
    queryKey: [ROUTE, deviceId, id],
    queryFn: async ({ signal }) => {
      const { blob } = await download(ROUTE, { params: { id: deviceId, recordingId: id } }, { signal });
      return parseCast(await blob.text());
    },
  });
  return (
    <Loaded query={query} what="Reading the recording">
      {(cast) => (
        <Suspense fallback={<Loading />}>
          <Player cast={cast} label={`What the terminal of ${userName} has shown`} />
        </Suspense>
      )}
    </Loaded>
  );
}

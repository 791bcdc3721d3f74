import { useMutation } from '@tanstack/react-query';
import { download, type BackupSnapshot, type Input } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { saveFile } from '../../../ui/index.ts';
import type { VolumePlace } from '../parts/content-text.ts';
import { useSnapshotSearch } from './snapshot-frame.tsx';

type Query = NonNullable<Input<'GET /backup/snapshots/{id}/download'>['query']>;

/** Downloads of files and folders of a snapshot, one at a time, in the shown state of the backup store. */
export function useSnapshotDownload(snapshot: BackupSnapshot, volume: Partial<VolumePlace> = {}) {
  const { search, removal } = useSnapshotSearch(snapshot);
  const refusal = useRefusal('recovery:execute') ?? removal;
  const { mutate, isPending, error } = useMutation({
    mutationFn: async (path: string) => {
      const query: { [K in keyof Query]: Query[K] | undefined } = {
        path: path === '/' ? undefined : path,
        asOf: search.asOf,
        ...volume,
      };
      const { blob, name } = await download('GET /backup/snapshots/{id}/download', {
        params: { id: snapshot.id },
        query,
      });
      saveFile(name ?? 'snapshot', blob);
    },
  });
  return {
    begin: (path: string) => mutate(path),
    isPending,
    error,
    /** Why this person may download nothing of the snapshot. */
    refusal,
    /** Why another download cannot begin now. */
    refusalOfAnother: refusal ?? (isPending ? 'A download is being prepared.' : undefined),
  };
}

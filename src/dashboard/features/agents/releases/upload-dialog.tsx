import { FileInput, List, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../../api/index.ts';
import { FormDialog, formatBytes, formatWord, SYSTEM_NAMES } from '../../../ui/index.ts';
import { releaseTargetOf } from '../../../../protocol/index.ts';

/** Uploads the files of one version, one after the other. What was registered before a failure stays. */
export function UploadDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [version, setVersion] = useState('');
  const [files, setFiles] = useState<File[]>([]);
  const [done, setDone] = useState<ReadonlySet<string>>(new Set());
  const queries = useQueryClient();
  const unknown = files.filter(({ name }) => releaseTargetOf(name) === undefined);
  const submit = async () => {
    if (files.length === 0) throw new Error('Choose the files of the release first.');
    if (unknown.length > 0) throw new Error('Remove the files that are not of a release.');
    try {
      for (const file of files) {
        const target = releaseTargetOf(file.name);
        if (target === undefined) continue;
        const params = { ...target, version: version.trim() };
        await call(
          'PUT /agent-versions/{version}/files/{component}/{os}/{architecture}',
          { params },
          { file: { bytes: file, sha256: await sha256Of(file) } },
        );
        setDone((before) => new Set([...before, file.name]));
      }
    } finally {
      await queries.invalidateQueries({ queryKey: ['GET /agent-versions'] });
      await queries.invalidateQueries({ queryKey: ['GET /agent-versions/pinnable'] });
    }
    setFiles([]);
    setDone(new Set());
  };
  return (
    <FormDialog
      title="Upload a release"
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel="Upload"
    >
      {(faults) => (
        <>
          <TextInput
            label="Version"
            description="Of these files, such as 1.4.0 or 1.4.0-rc.2."
            required
            data-autofocus
            value={version}
            onChange={(event) => setVersion(event.currentTarget.value)}
            error={faults['version'] ?? faults['params.version']}
          />
          <FileInput
            label="Files"
            description="As they are built, such as muster-watchdog-linux-x64 and muster-agent-linux-x64.cjs."
            multiple
            value={files}
            onChange={setFiles}
            error={
              unknown.length === 0
                ? undefined
                : `Not named as a file of a release: ${unknown.map(({ name }) => name).join(', ')}`
            }
          />
          {files.length > 0 && (
            <List size="sm" spacing={2}>
              {files.map(({ name, size }) => {
                const target = releaseTargetOf(name);
                return (
                  target !== undefined && (
                    <List.Item key={name}>
                      {formatWord(target.component)} for {SYSTEM_NAMES[target.os]} {target.architecture},{' '}
                      {formatBytes(size)}
                      {done.has(name) && ': registered'}
                    </List.Item>
                  )
                );
              })}
            </List>
          )}
          <Text size="sm" c="dimmed">
            The server signs each file. A stable version that is higher than the promoted one is promoted at
            once, unless the server is set to wait for an administrator.
          </Text>
        </>
      )}
    </FormDialog>
  );
}

/** The server compares it with what arrives. Browsers compute it on pages that came by TLS, or from this machine. */
async function sha256Of(file: File): Promise<string> {
  // Typed as if it were always there.
  const { subtle }: { subtle?: SubtleCrypto } = window.crypto;
  if (subtle === undefined) {
    throw new Error(
      'This page was opened without TLS, where browsers cannot check a file. Open it by https.',
    );
  }
  const hash = new Uint8Array(await subtle.digest('SHA-256', await file.arrayBuffer()));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

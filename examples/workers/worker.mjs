#!/usr/bin/env node
// A worker in Node 20.3 or newer, without packages: claims jobs over HTTP, extends them while it works, settles them, gives back on SIGTERM.
//   DIBS_URL=http://127.0.0.1:8642 DIBS_API_KEY=dibs_... node examples/workers/worker.mjs
import { setTimeout as sleep } from 'node:timers/promises'

const url = process.env.DIBS_URL ?? 'http://127.0.0.1:8642'
const lease = Number(process.env.DIBS_LEASE ?? 30)
const headers = { 'X-API-Key': process.env.DIBS_API_KEY ?? '', 'Content-Type': 'application/json' }
const stopping = new AbortController()
for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => stopping.abort())

// The work itself: put yours here. Leave soon once `over` is aborted: the job is no longer yours.
// Send the fence along with what you write elsewhere, and refuse lower ones there.
async function work(params, fence, over) {
  await sleep((params.seconds ?? 0) * 1000, undefined, { signal: over })
  if (!params.text) throw new Error('there is no text')
  return params.text.toUpperCase()
}

// One request: its status, 0 if no answer came, and what was answered. A claim that is aborted is given back by the server.
async function post(path, body, signal) {
  try {
    const reply = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body), signal })
    return { ...(await reply.json()), status: reply.status }
  } catch {
    return { status: 0 }
  }
}

// Beside the work: extends the claim, and stops the work if it was lost.
async function keep(path, claim, lost, done) {
  while (await sleep((lease / 3) * 1000, true, { signal: done }).catch(() => false)) {
    if ([404, 409].includes((await post(`${path}/heartbeat`, claim)).status)) lost.abort()
  }
}

async function handle({ id, params, fence, lease_token }) {
  const path = `/api/tasks/${id}`, claim = { fence, lease_token }, lost = new AbortController(), done = new AbortController()
  const keeping = keep(path, claim, lost, done.signal)
  let end = ['complete', claim]
  try {
    end[1] = { ...claim, success: true, result: await work(params, fence, AbortSignal.any([lost.signal, stopping.signal])) }
  } catch (error) {
    end = stopping.signal.aborted ? ['release', claim] : ['complete', { ...claim, success: false, error_message: String(error) }]
  }
  done.abort()
  await keeping
  let status // The same again until it is answered: settling twice is safe.
  while ((status = (await post(`${path}/${end[0]}`, end[1])).status) < 200 || status >= 429) await sleep(1000)
  console.log(`${id}: ${end[0]}, ${status}`)
}

while (!stopping.signal.aborted) {
  const wish = { worker_id: `node-${process.pid}`, task_types: ['shout'], lease_seconds: lease, wait_seconds: 20 }
  const reply = await post('/api/tasks/claim', wish, stopping.signal)
  if (reply.status === 200) await handle(reply.task)
  else if ([400, 401, 403].includes(reply.status)) throw new Error(reply.message)
  else if (reply.status !== 404 && !stopping.signal.aborted) await sleep(1000) // the server is away, or says to wait
}
